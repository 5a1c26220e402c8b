"""Which repository of which registry: `oci://registry.example.com/team/builds`."""

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from kilonova.objectstore.errors import StoreNotUsable

SCHEME = "oci"
_EXAMPLE = "use oci://registry.example.com/team/name"
_REPOSITORY = re.compile(
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*", re.ASCII
)
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_LOOPBACK = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?", re.ASCII)
_DOCKER_HUB = "docker.io"
_DOCKER_HUB_SERVER = "registry-1.docker.io"


@dataclass(frozen=True, slots=True)
class OciLocation:
    """A repository, and the tag or digest of an artifact in it, if one is named."""

    registry: str
    """Host and port."""
    repository: str
    reference: str = ""
    plain_http: bool = False
    """Whether the registry is reached without TLS."""

    def __post_init__(self) -> None:
        if not self.registry or not _REPOSITORY.fullmatch(self.repository):
            problem = f"the repository is {self.repository!r}: want lower-case words and slashes"
            raise StoreNotUsable(self.name, problem, _EXAMPLE)
        if self.reference and not is_reference(self.reference):
            problem = f"{self.reference[:80]!r} is neither a tag nor a digest"
            raise StoreNotUsable(self.name, problem, "use a tag, or sha256: and 64 digits")

    @property
    def name(self) -> str:
        """`oci://registry/repository`."""
        return f"oci://{self.registry}/{self.repository}"

    @property
    def base_url(self) -> str:
        """What the paths of the registry's API are added to."""
        host = _DOCKER_HUB_SERVER if self.registry == _DOCKER_HUB else self.registry
        return f"{'http' if self.plain_http else 'https'}://{host}/v2/"


def parse_oci_location(url: str) -> OciLocation:
    """Parse `oci://registry/repository[:TAG|@DIGEST][?plain-http=true]`; `StoreNotUsable` if it is
    another text. Registries of this machine are reached over plain HTTP, as docker does."""
    parts = urlsplit(url)
    if "@" in parts.netloc:
        fix = "remove them: log in with `docker login`, or set REGISTRY_AUTH"
        raise StoreNotUsable(f"oci://{parts.hostname}", "the URL contains credentials", fix)
    path = parts.path.strip("/")
    path, at, digest = path.partition("@")
    repository, colon, tag = path.partition(":")
    if (at and not digest) or (colon and not tag) or (at and not is_digest(digest)):
        problem = "the text behind the repository is neither a tag nor a digest"
        raise StoreNotUsable(url, problem, f"{_EXAMPLE}:TAG or …@sha256:DIGEST")
    plain_http = bool(_LOOPBACK.fullmatch(parts.netloc))
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name != "plain-http" or value not in ("true", "false"):
            raise StoreNotUsable(url, f"unknown option {name}={value}", "use plain-http=true")
        plain_http = value == "true"
    return OciLocation(parts.netloc, repository, digest or tag, plain_http)


def is_digest(text: str) -> bool:
    """Whether it is a digest, of the algorithm that all registries know."""
    return _DIGEST.fullmatch(text) is not None


def is_reference(text: str) -> bool:
    """Whether it is a tag or a digest."""
    return is_digest(text) or _TAG.fullmatch(text) is not None
