"""The data folder: what is kept in it, and that one process at a time uses it."""

import fcntl
import os
import re
import secrets
import time
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec
import yaml
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from kilonova.kube.certificates import Authority, KeyPair, needs_renewal
from kilonova.local.auth import SigningKey

_ADMIN = "kubernetes-admin"
_CONTEXT = "kilonova"
_LOCK_TRIES = 10
_LOCK_PAUSE = 0.01


_OURS = re.compile(
    r"store\.db(-wal|-shm|-journal)?|lock|log|pki|keeper|pods|volumes"
    r"|(kubeconfig|console-token)(\.\d+)?|(running|ending|stopped)\.(json|\d+)"
)
"""What is put into a data folder by whoever runs on it, unfinished files of theirs included."""


class FolderInUse(Exception):
    """Another process runs on the same data."""


class Running(msgspec.Struct):
    """What the process on a folder says of itself, for `status` and `down`."""

    pid: int
    url: str
    kubeconfig: str
    started: str
    console: str | None = None
    """The link to its web page, token included."""
    rooms: dict[str, str] = {}
    """What it consists of, and how far each is."""
    problems: dict[str, str] = {}
    """What is wrong with those that are degraded."""


class Ending(msgspec.Struct):
    """What a process that stops says of the pods that it still waits for."""

    pods: int
    until: float
    """Seconds since 1970."""


class Stopped(msgspec.Struct):
    """How the last process on a folder ended, if it could say so."""

    reason: Literal["asked", "failed"]
    at: str
    message: str = ""
    """Why it failed."""


class Folder:
    """Files of one embedded cluster. Only the owner of the lock writes them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = path / "store.db"
        self.kubeconfig = path / "kubeconfig"
        self.log = path / "log"
        self.token_file = path / "console-token"
        self._pki = path / "pki"
        self._lock: int | None = None
        self._word: Running | None = None
        self._stopped: Stopped | None = None

    def is_ours(self) -> bool:
        """Whether a cluster has ever run on it."""
        return self.database.exists() and (self.path / "lock").exists()

    def belongings(self) -> list[Path]:
        """What clusters have put into it, in an order in which it can be removed: what tells that
        it is ours comes last, and the lock, without which another could start, after all."""
        last = (self.database.name, "lock")
        found = [each for each in self.path.iterdir() if _OURS.fullmatch(each.name)]
        return sorted(
            found,
            key=lambda each: (last.index(each.name) + 1 if each.name in last else 0, each.name),
        )

    def acquire(self) -> None:
        """Take the folder for this process, or say who has it."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _locks(lock):
            os.close(lock)
            raise self._in_use()
        self._lock = lock
        # Secrets are in it. SQLite gives the files that it adds the same rights.
        self.database.touch(0o600)
        self.database.chmod(0o600)
        # The word of a process that was killed: its number may be another's by now.
        self._forget_words()

    def release(self) -> None:
        if self._lock is not None:
            self._forget_words()
            if self._stopped is not None:
                _replace(self.path / "stopped.json", msgspec.json.encode(self._stopped), 0o600)
            os.close(self._lock)
            self._lock = None

    def require_free(self) -> None:
        """Say who has it, if somebody has. Makes nothing, and holds nothing."""
        if self.is_taken():
            raise self._in_use()

    def _in_use(self) -> FolderInUse:
        running = self.running()
        who = f"process {running.pid} ({running.url})" if running else "another process"
        return FolderInUse(
            f"{self.path} is in use by {who}: stop it with `kilonova down --data {self.path}`, "
            "or start on another folder with --data DIR"
        )

    def is_taken(self) -> bool:
        """Whether a process holds the folder now."""
        try:
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(lock)
        return False

    def announce(self, url: str) -> None:
        """Leave word of this process for other commands."""
        self._leave_word(Running(os.getpid(), url, str(self.kubeconfig), _now()))

    def announce_rooms(
        self, rooms: Mapping[str, str], problems: Mapping[str, str], console: str | None
    ) -> None:
        """Add to the word what this process consists of, and where its web page is."""
        assert self._word is not None
        word = msgspec.structs.replace(
            self._word, rooms=dict(rooms), problems=dict(problems), console=console
        )
        self._leave_word(word)

    def _leave_word(self, word: Running) -> None:
        self._word = word
        _replace(self.path / "running.json", msgspec.json.encode(word), 0o600)

    def running(self) -> Running | None:
        """The word left by the process on the folder, if it can be read."""
        try:
            return msgspec.json.decode((self.path / "running.json").read_bytes(), type=Running)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def announce_ending(self, pods: int, seconds: float) -> None:
        """Leave word that pods are still ending, for `down`."""
        word = Ending(pods, time.time() + seconds)
        _replace(self.path / "ending.json", msgspec.json.encode(word), 0o600)

    def ending(self) -> Ending | None:
        """Which pods a process that stops still waits for."""
        try:
            return msgspec.json.decode((self.path / "ending.json").read_bytes(), type=Ending)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def will_stop(self, reason: Literal["asked", "failed"], message: str = "") -> None:
        """What `stopped` tells after `release`."""
        self._stopped = Stopped(reason, _now(), message)

    def stopped(self) -> Stopped | None:
        """How the last process ended; None if it could not say so, or none ever ran."""
        try:
            return msgspec.json.decode((self.path / "stopped.json").read_bytes(), type=Stopped)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def _forget_words(self) -> None:
        for name in ("running.json", "ending.json", "stopped.json"):
            (self.path / name).unlink(missing_ok=True)

    def authority(self, now: datetime) -> Authority:
        """The cluster's own CA, made on first use."""
        cert, key = self._pki / "ca.crt", self._pki / "ca.key"
        if not cert.exists():
            self._pki.mkdir(parents=True, exist_ok=True, mode=0o700)
            Authority.create("kilonova", now).pair.write(cert, key)
        return Authority.load(cert.read_bytes(), key.read_bytes())

    @property
    def authority_certificate(self) -> Path:
        return self._pki / "ca.crt"

    def serving_files(
        self, authority: Authority, names: list[str], now: datetime
    ) -> tuple[Path, Path]:
        """Certificate and key of the API; made anew before they expire, and for other names."""
        cert, key = self._pki / "server.crt", self._pki / "server.key"
        if not _is_good(cert, authority, now) or not _covers(cert, names):
            authority.issue_server(names, now).write(cert, key)
        return cert, key

    def admin(self, authority: Authority, now: datetime) -> KeyPair:
        """The administrator's client certificate, made anew when it is about to expire."""
        cert, key = self._pki / "admin.crt", self._pki / "admin.key"
        if not _is_good(cert, authority, now):
            authority.issue_client(_ADMIN, ["system:masters"], now).write(cert, key)
        return KeyPair.read(cert, key)

    def signing_key(self) -> SigningKey:
        """The key that signs ServiceAccount tokens; it outlives restarts."""
        path = self._pki / "sa.key"
        if not path.exists():
            _replace(path, SigningKey.create().pem, 0o600)
        return SigningKey.load(path.read_bytes())

    def console_token(self) -> str:
        """What lets people see the web page: the one that is kept, else a new one."""
        if self.token_file.exists():
            return self.token_file.read_text().strip()
        return secrets.token_urlsafe(24)

    def keep_console_token(self, token: str) -> None:
        """Let it outlive restarts, so that links do."""
        if not self.token_file.exists():
            _replace(self.token_file, token.encode(), 0o600)

    def write_kubeconfig(self, url: str, authority: Authority, admin: KeyPair) -> None:
        """A kubeconfig for the administrator, readable by its owner only."""
        cluster = {
            "server": url,
            "certificate-authority-data": b64encode(authority.cert_pem).decode(),
        }
        user = {
            "client-certificate-data": b64encode(admin.cert_pem).decode(),
            "client-key-data": b64encode(admin.key_pem).decode(),
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": _CONTEXT, "cluster": cluster}],
            "users": [{"name": _ADMIN, "user": user}],
            "contexts": [{"name": _CONTEXT, "context": {"cluster": _CONTEXT, "user": _ADMIN}}],
            "current-context": _CONTEXT,
        }
        _replace(self.kubeconfig, yaml.safe_dump(config, sort_keys=False).encode(), 0o600)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _is_good(path: Path, authority: Authority, now: datetime) -> bool:
    """Whether there is a certificate that the authority signed and that will last."""
    if not path.exists() or needs_renewal(path.read_bytes(), now):
        return False
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.cert_pem))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _covers(path: Path, names: list[str]) -> bool:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    hosts = found.get_values_for_type(x509.DNSName)
    addresses = map(str, found.get_values_for_type(x509.IPAddress))
    return set(names) <= {*hosts, *addresses}


def _locks(lock: int) -> bool:
    """Whether the lock is ours now. Whoever only looks (`is_taken`) holds it for a moment."""
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(_LOCK_PAUSE)
        else:
            return True
    return False


def _replace(path: Path, content: bytes, mode: int) -> None:
    partial = path.with_suffix(f".{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)
