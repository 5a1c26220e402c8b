"""Which bucket of which S3 server, and how patiently."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from kilonova.objectstore.errors import StoreNotUsable
from kilonova.objectstore.keys import check_prefix

_MIN_PART_BYTES = 5 * 1024 * 1024
"""S3 rejects smaller parts, other than the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Limits:
    """Times in seconds, sizes in bytes."""

    connect_timeout: float = 5.0
    read_timeout: float = 30.0
    concurrency: int = 10
    """Requests at a time; more wait."""
    part_bytes: int = 8 * 1024 * 1024
    """Size of the parts of a large object; four are sent at a time."""

    def __post_init__(self) -> None:
        if self.part_bytes < _MIN_PART_BYTES:
            problem = f"part_bytes is {self.part_bytes}"
            raise StoreNotUsable("s3://", problem, f"use at least {_MIN_PART_BYTES}")
        if self.concurrency < 1:
            raise StoreNotUsable("s3://", f"concurrency is {self.concurrency}", "use at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings:
    """The place of a store, and its limits.

    Credentials are not part of it: they come from where every AWS tool looks for them, the
    environment, `~/.aws`, a web identity of the pod, the instance.
    """

    bucket: str
    prefix: str = ""
    """What the keys in the bucket start with, such as `team-a/`."""
    endpoint: str = ""
    """The URL of the server, if it is not Amazon's."""
    region: str = ""
    """Empty for the one that the environment or `~/.aws` names."""
    path_style: bool | None = None
    """Whether the bucket is in the path of a URL, not in its host name; by default only with an
    `endpoint`."""
    limits: S3Limits = field(default_factory=S3Limits)

    def __post_init__(self) -> None:
        if not self.bucket:
            raise StoreNotUsable("s3://", "no bucket is given", "set bucket")
        if "@" in self.endpoint:
            fix = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead"
            raise StoreNotUsable(self.name, "the endpoint contains credentials", fix)
        if self.endpoint and urlsplit(self.endpoint).scheme not in ("http", "https"):
            fix = "use a URL such as https://s3.example.com:9000"
            raise StoreNotUsable(self.name, f"the endpoint is {self.endpoint!r}", fix)
        check_prefix(f"s3://{self.bucket}", self.prefix)

    @property
    def name(self) -> str:
        """`s3://bucket/prefix`, without a slash at its end."""
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")

    @property
    def uses_path_style(self) -> bool:
        return bool(self.endpoint) if self.path_style is None else self.path_style
