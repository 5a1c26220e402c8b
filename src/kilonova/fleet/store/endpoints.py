"""Endpoints: where a fleet's store is, as text.

    s3://BUCKET/PREFIX?endpoint=URL&region=REGION
    /PATH, ./PATH or file:///PATH
    kubernetes://NAMESPACE?context=NAME&kubeconfig=FILE

Three of them, separated by commas, are one store that goes on while any two are available.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from kilonova.objectstore import S3Limits, S3Settings, StoreNotUsable

FLAG = "--global-leader-elect-endpoint"
REPLICAS = 3
"""How many endpoints one store has, if not one."""

S3_LIMITS = S3Limits(connect_timeout=2.0, read_timeout=5.0)
"""A request that takes longer is of no use to the renewal of a lease."""

_FORMS = "use s3://BUCKET/PREFIX, a path, file:///PATH or kubernetes://NAMESPACE"


@dataclass(frozen=True, slots=True)
class DirectoryEndpoint:
    """A directory that all processes share."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True, slots=True)
class S3Endpoint:
    """A bucket, or a part of it."""

    settings: S3Settings

    def __str__(self) -> str:
        return self.settings.name


@dataclass(frozen=True, slots=True)
class KubernetesEndpoint:
    """A namespace of an API server; by default that of the process's own kubeconfig."""

    namespace: str
    context: str = ""
    kubeconfig: Path | None = None

    def __str__(self) -> str:
        context = f"?context={self.context}" if self.context else ""
        return f"kubernetes://{self.namespace}{context}"


Endpoint: TypeAlias = DirectoryEndpoint | S3Endpoint | KubernetesEndpoint


def parse_endpoints(text: str) -> tuple[Endpoint, ...]:
    """One endpoint, or three; `StoreNotUsable` states what is wrong with the text."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) not in (1, REPLICAS):
        raise _refuse(text, f"it names {len(parts)} endpoints", "name one, or three")
    endpoints = tuple(_parse(part) for part in parts)
    if len(set(endpoints)) < len(endpoints):
        fix = "name three places that fail independently, such as buckets of three regions"
        raise _refuse(text, "it names an endpoint twice", fix)
    return endpoints


def _parse(text: str) -> Endpoint:
    if not text:
        raise _refuse(text, "an endpoint is empty", _FORMS)
    if "://" not in text:
        return _build_directory(text, text)
    try:
        url = urlsplit(text)
    except ValueError as error:
        raise _refuse(text, str(error), _FORMS) from error
    if url.scheme == "s3":
        return _build_s3(text, url)
    if url.scheme == "kubernetes":
        return _build_kubernetes(text, url)
    if url.scheme == "file":
        if url.netloc not in ("", "localhost"):
            raise _refuse(text, f"it names the host {url.netloc!r}", "use file:///PATH")
        _read_query(text, url, frozenset())
        return _build_directory(text, unquote(url.path))
    raise _refuse(text, f"{url.scheme}:// is not supported", _FORMS)


def _build_directory(text: str, path: str) -> DirectoryEndpoint:
    if not path or path.startswith("-"):
        raise _refuse(text, "it names no directory", _FORMS)
    return DirectoryEndpoint(Path(path).expanduser().absolute())


def _build_s3(text: str, url: SplitResult) -> S3Endpoint:
    query = _read_query(text, url, frozenset({"endpoint", "region"}))
    if not url.netloc:
        raise _refuse(text, "it names no bucket", "use s3://BUCKET/PREFIX")
    if "@" in url.netloc:
        fix = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead"
        raise StoreNotUsable(f"{FLAG} s3://…", "it contains credentials", fix)
    prefix = unquote(url.path).strip("/")
    return S3Endpoint(
        S3Settings(
            bucket=url.netloc,
            prefix=f"{prefix}/" if prefix else "",
            endpoint=query.get("endpoint", ""),
            region=query.get("region", ""),
            limits=S3_LIMITS,
        )
    )


def _build_kubernetes(text: str, url: SplitResult) -> KubernetesEndpoint:
    query = _read_query(text, url, frozenset({"context", "kubeconfig"}))
    if not url.netloc or url.path not in ("", "/"):
        fix = "use kubernetes://NAMESPACE, or kubernetes://NAMESPACE?context=NAME"
        raise _refuse(text, "it does not name a namespace alone", fix)
    kubeconfig = query.get("kubeconfig", "")
    return KubernetesEndpoint(
        url.netloc,
        query.get("context", ""),
        Path(kubeconfig).expanduser() if kubeconfig else None,
    )


def _read_query(text: str, url: SplitResult, known: frozenset[str]) -> dict[str, str]:
    query = dict(parse_qsl(url.query, keep_blank_values=True))
    unknown = sorted(query.keys() - known)
    if unknown or url.fragment:
        found = unknown[0] if unknown else f"#{url.fragment}"
        fix = f"known are {', '.join(sorted(known))}" if known else "leave it out"
        raise _refuse(text, f"the parameter {found!r} is unknown", fix)
    return query


def _refuse(text: str, problem: str, fix: str) -> StoreNotUsable:
    return StoreNotUsable(f"{FLAG} {text!r}", problem, fix)
