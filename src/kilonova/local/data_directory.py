"""The data directory: its files, and the lock that allows one process at a time."""

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

from kilonova.component.command.data_directory import (
    DATABASE,
    KUBECONFIG,
    LOCK,
    is_data_directory,
    is_locked,
)
from kilonova.kube.serving.certificates import CertificateAuthority, KeyPair, needs_renewal
from kilonova.local.apiserver.auth import SigningKey

_ADMIN = "kubernetes-admin"
_CONTEXT = "kilonova"
_LOCK_TRIES = 10
_LOCK_PAUSE = 0.01


SHIM_DIRECTORY = "shim"
"""The directory of the runtime shim in a data directory."""
_FORMER_SHIM_DIRECTORY = "keeper"
"""Its name in data directories of earlier versions."""
_OWNED_FILES = re.compile(
    rf"store\.db(-wal|-shm|-journal)?|lock|log|pki|pods|volumes|components"
    rf"|{SHIM_DIRECTORY}|{_FORMER_SHIM_DIRECTORY}"
    r"|(kubeconfig|console-token)(\.\d+)?|(running|ending|stopped)\.(json|\d+)"
)
"""Everything that Kilonova writes into a data directory, temporary files included."""


class DataDirectoryInUse(Exception):
    """Another process uses the data directory."""


class RunningProcess(msgspec.Struct):
    """The record of the process that uses a data directory, for `status` and `down`."""

    pid: int
    url: str
    kubeconfig: str
    started: str
    console: str | None = None
    """The link to its console, including the token."""
    components: dict[str, str] = {}
    """Its components, and their states."""
    problems: dict[str, str] = {}
    """The problems of degraded components."""


class StoppingProcess(msgspec.Struct):
    """The record of a stopping process: the pods that it still waits for."""

    pods: int
    until: float
    """Unix time."""


class StoppedProcess(msgspec.Struct):
    """How the last process on a data directory ended, if it could record that."""

    reason: Literal["requested", "failed"]
    at: str
    message: str = ""
    """The error message."""


class DataDirectory:
    """Files of one embedded cluster. Only the owner of the lock writes them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = path / DATABASE
        self.kubeconfig = path / KUBECONFIG
        self.log = path / "log"
        self.token_file = path / "console-token"
        self._pki = path / "pki"
        self._lock: int | None = None
        self._running_record: RunningProcess | None = None
        self._stopped: StoppedProcess | None = None

    def is_data_directory(self) -> bool:
        """Whether a cluster has ever used it."""
        return is_data_directory(self.path)

    def owned_files(self) -> list[Path]:
        """The files that clusters have written, in a safe order of removal: the files that identify
        it as ours come last, and after them the lock, without which another process could start."""
        last = (self.database.name, LOCK)
        found = [each for each in self.path.iterdir() if _OWNED_FILES.fullmatch(each.name)]
        return sorted(
            found,
            key=lambda each: (last.index(each.name) + 1 if each.name in last else 0, each.name),
        )

    def acquire(self) -> None:
        """Lock the data directory for this process, or raise an error that names its owner."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _try_lock(lock):
            os.close(lock)
            raise self._in_use_error()
        self._lock = lock
        # It contains secrets. SQLite gives the files that it adds the same permissions.
        self.database.touch(0o600)
        self.database.chmod(0o600)
        # The record of a killed process: its pid may have been reused.
        self._remove_records()
        self._rename_former_shim_directory()

    def _rename_former_shim_directory(self) -> None:
        """Rename the shim's directory of an earlier version; a link stays, by which a shim that is
        still running finds its files."""
        former, now = self.path / _FORMER_SHIM_DIRECTORY, self.path / SHIM_DIRECTORY
        if former.is_dir() and not former.is_symlink() and not now.exists():
            former.rename(now)
            former.symlink_to(SHIM_DIRECTORY)

    def release(self) -> None:
        if self._lock is not None:
            self._remove_records()
            if self._stopped is not None:
                _write_atomically(
                    self.path / "stopped.json", msgspec.json.encode(self._stopped), 0o600
                )
            os.close(self._lock)
            self._lock = None

    def check_unlocked(self) -> None:
        """Raise an error that names the owner if it is locked. Creates and holds nothing."""
        if self.is_locked():
            raise self._in_use_error()

    def _in_use_error(self) -> DataDirectoryInUse:
        running = self.read_running_record()
        owner = f"process {running.pid} ({running.url})" if running else "another process"
        return DataDirectoryInUse(
            f"{self.path} is in use by {owner}: stop it with `kilonova down --data {self.path}`, "
            "or use another data directory with --data DIR"
        )

    def is_locked(self) -> bool:
        """Whether a process holds the lock now."""
        return is_locked(self.path)

    def write_running_record(self, url: str) -> None:
        """Record this process for other commands."""
        self._write_running_record(RunningProcess(os.getpid(), url, str(self.kubeconfig), _now()))

    def update_components(
        self, components: Mapping[str, str], problems: Mapping[str, str], console: str | None
    ) -> None:
        """Add the components of this process, and the link to its console, to the record."""
        assert self._running_record is not None
        record = msgspec.structs.replace(
            self._running_record,
            components=dict(components),
            problems=dict(problems),
            console=console,
        )
        self._write_running_record(record)

    def _write_running_record(self, record: RunningProcess) -> None:
        self._running_record = record
        _write_atomically(self.path / "running.json", msgspec.json.encode(record), 0o600)

    def read_running_record(self) -> RunningProcess | None:
        """The record of the process on this data directory, if it can be read."""
        try:
            return msgspec.json.decode(
                (self.path / "running.json").read_bytes(), type=RunningProcess
            )
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def write_stopping_record(self, pods: int, seconds: float) -> None:
        """Record that pods are still terminating, for `down`."""
        record = StoppingProcess(pods, time.time() + seconds)
        _write_atomically(self.path / "ending.json", msgspec.json.encode(record), 0o600)

    def read_stopping_record(self) -> StoppingProcess | None:
        """The pods that a stopping process still waits for."""
        try:
            return msgspec.json.decode(
                (self.path / "ending.json").read_bytes(), type=StoppingProcess
            )
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def set_stop_reason(self, reason: Literal["requested", "failed"], message: str = "") -> None:
        """Set what `read_stopped_record` returns after `release`."""
        self._stopped = StoppedProcess(reason, _now(), message)

    def read_stopped_record(self) -> StoppedProcess | None:
        """How the last process ended; None if it could not record that, or none ever ran."""
        try:
            return msgspec.json.decode(
                (self.path / "stopped.json").read_bytes(), type=StoppedProcess
            )
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def _remove_records(self) -> None:
        for name in ("running.json", "ending.json", "stopped.json"):
            (self.path / name).unlink(missing_ok=True)

    def load_authority(self, now: datetime) -> CertificateAuthority:
        """The cluster's own CA, created on first use."""
        cert, key = self._pki / "ca.crt", self._pki / "ca.key"
        if not cert.exists():
            self._pki.mkdir(parents=True, exist_ok=True, mode=0o700)
            CertificateAuthority.create("kilonova", now).pair.write(cert, key)
        return CertificateAuthority.load(cert.read_bytes(), key.read_bytes())

    @property
    def authority_certificate(self) -> Path:
        return self._pki / "ca.crt"

    def ensure_serving_certificate(
        self, authority: CertificateAuthority, names: list[str], now: datetime
    ) -> tuple[Path, Path]:
        """Certificate and key of the API server; renewed before they expire, and for other
        names."""
        cert, key = self._pki / "server.crt", self._pki / "server.key"
        if not _is_valid_certificate(cert, authority, now) or not _covers_names(cert, names):
            authority.issue_server(names, now).write(cert, key)
        return cert, key

    def ensure_admin_certificate(self, authority: CertificateAuthority, now: datetime) -> KeyPair:
        """The administrator's client certificate, renewed before it expires."""
        cert, key = self._pki / "admin.crt", self._pki / "admin.key"
        if not _is_valid_certificate(cert, authority, now):
            authority.issue_client(_ADMIN, ["system:masters"], now).write(cert, key)
        return KeyPair.read(cert, key)

    def load_signing_key(self) -> SigningKey:
        """The key that signs ServiceAccount tokens; it is kept across restarts."""
        path = self._pki / "sa.key"
        if not path.exists():
            _write_atomically(path, SigningKey.create().pem, 0o600)
        return SigningKey.load(path.read_bytes())

    def load_console_token(self) -> str:
        """The token of the console: the stored one, else a new one."""
        if self.token_file.exists():
            return self.token_file.read_text().strip()
        return secrets.token_urlsafe(24)

    def save_console_token(self, token: str) -> None:
        """Store the token, so that links stay valid across restarts."""
        if not self.token_file.exists():
            _write_atomically(self.token_file, token.encode(), 0o600)

    def write_kubeconfig(self, url: str, authority: CertificateAuthority, admin: KeyPair) -> None:
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
        _write_atomically(self.kubeconfig, yaml.safe_dump(config, sort_keys=False).encode(), 0o600)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _is_valid_certificate(path: Path, authority: CertificateAuthority, now: datetime) -> bool:
    """Whether there is a certificate that the CA signed and that needs no renewal."""
    if not path.exists() or needs_renewal(path.read_bytes(), now):
        return False
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.cert_pem))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _covers_names(path: Path, names: list[str]) -> bool:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    hosts = found.get_values_for_type(x509.DNSName)
    addresses = map(str, found.get_values_for_type(x509.IPAddress))
    return set(names) <= {*hosts, *addresses}


def _try_lock(lock: int) -> bool:
    """Whether the lock was acquired. A process that only checks (`is_locked`) holds it for a
    moment."""
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(_LOCK_PAUSE)
        else:
            return True
    return False


def _write_atomically(path: Path, content: bytes, mode: int) -> None:
    partial = path.with_suffix(f".{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)
