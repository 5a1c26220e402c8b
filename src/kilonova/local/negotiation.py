"""What the client sends and what it wants back: media types, both ways."""

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

import msgspec
import yaml

from kilonova.api.json import JsonObject
from kilonova.local.errors import (
    ApiError,
    bad_request,
    not_acceptable,
    unsupported_media_type,
)

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_OFFERED = f"{JSON}, {YAML}, {PROTOBUF}"


class Shape(Enum):
    """In which form an object is shown."""

    WHOLE = "whole"
    TABLE = "table"
    METADATA = "metadata"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The best of what the client accepts that the server can give."""

    shape: Shape
    media_type: str

    @property
    def content_type(self) -> str:
        return self.media_type


@lru_cache(maxsize=256)
def wanted(accept: str) -> Wanted:
    """The first acceptable clause of an Accept header; 406 where there is none."""
    for media_type, parameters in _clauses(accept):
        concrete = _concrete(media_type)
        if concrete is None:
            continue
        shape = _shape(parameters)
        if shape is not None:
            return Wanted(shape, concrete)
    raise not_acceptable(_OFFERED)


@lru_cache(maxsize=64)
def wants_aggregated_discovery(accept: str) -> bool:
    """Whether discovery is asked for as one document, ahead of the plain form."""
    for media_type, parameters in _clauses(accept):
        if media_type == JSON and parameters.get("as") == "APIGroupDiscoveryList":
            if parameters.get("g") == "apidiscovery.k8s.io" and parameters.get("v") == "v2":
                return True
        elif _concrete(media_type) is not None and "as" not in parameters:
            return False
    return False


def decode_body(
    body: bytes, content_type: str, api_version: str = "", kind: str = ""
) -> JsonObject:
    """The object in a request's body, whatever it is written in.

    `api_version` and `kind` are what the endpoint expects, for bodies that do not say.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type == PROTOBUF or body.startswith(b"k8s\0"):
        from kilonova.local.protobuf import decode

        return decode(body, api_version, kind)
    if media_type in ("", JSON):
        return _object(decode_json(body))
    if media_type in (YAML, "application/x-yaml"):
        return _object(decode_yaml(body))
    raise unsupported_media_type(
        "the body of the request was in an unknown format - "
        f"accepted media types include: {_OFFERED}"
    )


def decode_json(body: bytes) -> Any:
    """JSON, or 400 with what is wrong and where."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _malformed(str(error) or "nested too deeply") from error


def decode_yaml(body: bytes) -> Any:
    """YAML without aliases: a small text must not become a huge object."""
    try:
        return yaml.load(body, _PlainLoader)  # noqa: S506 (a SafeLoader below)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise _malformed(" ".join(str(error).split())) from error


class _PlainLoader(yaml.SafeLoader):
    """JSON's types only: no aliases, no dates, text keys."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not accepted")
        return super().compose_node(parent, index)


_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _object(value: Any) -> JsonObject:
    if not isinstance(value, dict):
        raise _malformed("the body is not an object")
    return value  # pyright: ignore[reportUnknownVariableType]


def _malformed(detail: str) -> ApiError:
    return bad_request(f"the body of the request could not be read: {detail}")


def _concrete(media_type: str) -> str | None:
    if media_type in (JSON, "*/*", "application/*", ""):
        return JSON
    if media_type in (YAML, "application/x-yaml"):
        return YAML
    return None


def _shape(parameters: dict[str, str]) -> Shape | None:
    target = parameters.get("as")
    if target is None:
        return Shape.WHOLE
    if parameters.get("g") != "meta.k8s.io" or parameters.get("v") not in ("v1", "v1beta1"):
        return None
    return {
        "Table": Shape.TABLE,
        "PartialObjectMetadata": Shape.METADATA,
        "PartialObjectMetadataList": Shape.METADATA,
    }.get(target)


def _clauses(accept: str) -> list[tuple[str, dict[str, str]]]:
    clauses: list[tuple[float, str, dict[str, str]]] = []
    for text in accept.split(","):
        media_type, *settings = (part.strip() for part in text.split(";"))
        pairs = (setting.partition("=") for setting in settings)
        parameters = {name.strip(): value.strip() for name, _, value in pairs}
        try:
            quality = float(parameters.pop("q", "1"))
        except ValueError:
            quality = 1.0
        clauses.append((quality, media_type.lower(), parameters))
    clauses.sort(key=lambda clause: -clause[0])
    return [(media_type, parameters) for quality, media_type, parameters in clauses if quality > 0]
