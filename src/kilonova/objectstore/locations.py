"""Places of objects as users write them: a directory, `file://`, `s3://` or `oci://`.

    /srv/builds, file:///srv/builds
    s3://bucket/prefix[?endpoint=URL&region=NAME]
    oci://registry/repository[:TAG|@DIGEST][?plain-http=true]

Without `endpoint`, `AWS_ENDPOINT_URL_S3` and `AWS_ENDPOINT_URL` name the S3 server, as for every
AWS tool.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

from kilonova.objectstore.errors import StoreNotUsable
from kilonova.objectstore.oci.location import OciLocation, parse_oci_location
from kilonova.objectstore.s3.settings import S3Settings

Location: TypeAlias = Path | S3Settings | OciLocation

_OPTIONS = ("endpoint", "region")
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_EXAMPLES = "use a directory, file:///DIR, s3://BUCKET/PREFIX or oci://REGISTRY/REPOSITORY"


def parse_location(text: str, environment: Mapping[str, str] | None = None) -> Location:
    """The place that a text names; `StoreNotUsable` if it names none."""
    if not text:
        raise StoreNotUsable("location", "it is empty", _EXAMPLES)
    scheme, separator, _ = text.partition("://")
    if not separator:
        return Path(text).expanduser()
    match scheme:
        case "file":
            return _parse_file(text)
        case "s3":
            return _parse_s3(text, os.environ if environment is None else environment)
        case "oci":
            return parse_oci_location(text)
        case _:
            raise StoreNotUsable(text, f"unknown scheme {scheme!r}", _EXAMPLES)


def _parse_file(text: str) -> Path:
    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost") or not parts.path:
        fix = f"use file:///{parts.netloc}{parts.path} with three slashes"
        raise StoreNotUsable(text, f"the URL names a host, {parts.netloc!r}", fix)
    return Path(unquote(parts.path))


def _parse_s3(text: str, environment: Mapping[str, str]) -> S3Settings:
    parts = urlsplit(text)
    if "@" in parts.netloc:
        fix = "remove them: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        raise StoreNotUsable(f"s3://{parts.hostname}", "the URL contains credentials", fix)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in options.keys() - set(_OPTIONS):
        raise StoreNotUsable(text, f"unknown option {name!r}", f"use {' or '.join(_OPTIONS)}")
    endpoint = options.get("endpoint", "") or next(
        filter(None, (environment.get(name, "") for name in _ENDPOINT_VARIABLES)), ""
    )
    prefix = unquote(parts.path).strip("/")
    return S3Settings(
        bucket=parts.netloc,
        prefix=f"{prefix}/" if prefix else "",
        endpoint=endpoint,
        region=options.get("region", ""),
    )
