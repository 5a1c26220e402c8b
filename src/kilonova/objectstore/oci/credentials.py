"""The users of registries, where docker and its kin keep them.

`REGISTRY_AUTH` of the environment comes first: `USER:PASSWORD` for every registry that asks, or the
content of a `config.json`. Then the file that `docker login` writes: `config.json` in
`DOCKER_CONFIG`, else in `~/.docker`. A registry that is not in either is asked anonymously.
Credential helpers are programs; they are not run.
"""

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kilonova.objectstore.errors import StoreNotUsable

VARIABLE = "REGISTRY_AUTH"
_DOCKER_HUB_KEYS = ("index.docker.io", "docker.io", "registry-1.docker.io")


@dataclass(frozen=True, slots=True)
class Login:
    """A user of a registry. A refresh token takes the place of the password, if there is one."""

    user: str
    password: str = field(repr=False)
    refresh_token: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        """The value of the header `Authorization`."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


class _Entry(msgspec.Struct, frozen=True):
    auth: str = ""
    username: str = ""
    password: str = ""
    identitytoken: str = ""


class _DockerConfig(msgspec.Struct, frozen=True):
    auths: dict[str, _Entry] = {}


class RegistryCredentials:
    """Finds the login of a registry. The file is read again each time: it may be rotated."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment

    def find(self, registry: str) -> Login | None:
        """The login of a registry; None if it is to be asked anonymously."""
        given = self._environment.get(VARIABLE, "").strip()
        if given and not given.startswith("{"):
            return _split_login(given, VARIABLE)
        if given and (found := _find_login(given.encode(), registry, VARIABLE)):
            return found
        folder = self._environment.get("DOCKER_CONFIG", "")
        path = (Path(folder) if folder else Path.home() / ".docker") / "config.json"
        try:
            content = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            problem = f"cannot be read: {error.strerror}"
            raise StoreNotUsable(str(path), problem, "check its owner and mode") from error
        return _find_login(content, registry, str(path))


def _find_login(content: bytes, registry: str, where: str) -> Login | None:
    try:
        config = msgspec.json.decode(content, type=_DockerConfig)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # The message of the decoder is left out: it may quote a secret.
        fix = f"log in again with `docker login {registry}`"
        raise StoreNotUsable(where, "it is no config.json of docker", fix) from None
    wanted = _DOCKER_HUB_KEYS if registry in _DOCKER_HUB_KEYS else (registry,)
    for key, entry in config.auths.items():
        if _strip_key(key) in wanted:
            return _read_entry(entry, registry, where)
    return None


def _strip_key(key: str) -> str:
    """Keys are hosts, or URLs of older versions of docker's protocol."""
    return key.removeprefix("https://").removeprefix("http://").partition("/")[0]


def _read_entry(entry: _Entry, registry: str, where: str) -> Login | None:
    if entry.username and not entry.auth:
        return Login(entry.username, entry.password, entry.identitytoken)
    if not entry.auth:
        # Kept by a credential helper, or a token alone.
        return Login("", "", entry.identitytoken) if entry.identitytoken else None
    try:
        text = base64.b64decode(entry.auth, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        fix = f"log in again with `docker login {registry}`"
        raise StoreNotUsable(where, f"the entry of {registry} is not valid base64", fix) from None
    login = _split_login(text, where)
    return Login(login.user, login.password, entry.identitytoken)


def _split_login(text: str, where: str) -> Login:
    user, colon, password = text.partition(":")
    if not colon or not user:
        problem = "it has neither USER:PASSWORD nor the content of a config.json"
        raise StoreNotUsable(where, problem, "write USER:PASSWORD")
    return Login(user, password.rstrip("\0"))
