"""Content negotiation: media types of requests and responses."""

import json
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, cast

import msgspec
import yaml

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    ApiError,
    bad_request,
    not_acceptable,
    unsupported_media_type,
)
from kilonova.local.apimachinery.patch.values import go_json_kind
from kilonova.local.apiserver.endpoints.yaml_decoder import load_json_compatible
from kilonova.local.apiserver.schema.duplicate_fields import find_duplicate_json_fields

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_OFFERED_MEDIA_TYPES = f"{JSON}, {YAML}, {PROTOBUF}"
_SUMMARY_BYTES = 30


class Representation(Enum):
    """The form in which an object is returned."""

    OBJECT = "whole"
    TABLE = "table"
    METADATA = "metadata"


@dataclass(frozen=True, slots=True)
class AcceptedMediaType:
    """The best media type that the client accepts and the server supports."""

    representation: Representation
    media_type: str
    version: str = "v1"  # of the group meta.k8s.io, for tables and metadata
    single_object_only: bool = False  # requested as the metadata of one object

    @property
    def content_type(self) -> str:
        return self.media_type


@lru_cache(maxsize=256)
def negotiate(accept: str, *, is_list: bool = False) -> AcceptedMediaType:
    """The first acceptable clause of an Accept header; 406 if there is none.

    `is_list` is set for a collection, in a list or a watch.
    """
    is_media_type_offered = False
    for media_type, parameters in _parse_accept(accept):
        concrete = _resolve_media_type(media_type)
        if concrete is None:
            continue
        is_media_type_offered = True
        shape = _parse_representation(parameters)
        if shape is not None:
            single_object_only = parameters.get("as") == "PartialObjectMetadata"
            return AcceptedMediaType(shape, concrete, parameters.get("v", "v1"), single_object_only)
    if is_media_type_offered:
        raise not_acceptable(_OFFERED_MEDIA_TYPES)
    representations = _OFFERED_MEDIA_TYPES
    if is_list:
        representations += "".join(f", {each};stream=watch" for each in (JSON, PROTOBUF))
    raise ApiError(
        406,
        "NotAcceptable",
        f"406: Not Acceptable\n\nAvailable representations: {representations}",
        {},
    )


@lru_cache(maxsize=64)
def wants_aggregated_discovery(accept: str) -> bool:
    """Whether aggregated discovery is preferred to the plain form."""
    for media_type, parameters in _parse_accept(accept):
        if media_type == JSON and parameters.get("as") == "APIGroupDiscoveryList":
            if parameters.get("g") == "apidiscovery.k8s.io" and parameters.get("v") == "v2":
                return True
        elif _resolve_media_type(media_type) is not None and "as" not in parameters:
            return False
    return False


def decode_body(
    body: bytes, content_type: str, api_version: str = "", kind: str = ""
) -> JsonObject:
    """Decode the object in a request's body, in any supported format.

    `api_version` and `kind` are what the endpoint expects, for bodies that omit them.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type == PROTOBUF or body.startswith(b"k8s\0"):
        from kilonova.local.apiserver.protobuf import decode_object

        return decode_object(body, api_version, kind)
    if media_type in ("", JSON):
        return _require_object(decode_json(body, "couldn't get version/kind; json parse error: "))
    if media_type in (YAML, "application/x-yaml"):
        return _require_object(decode_yaml(body))
    raise unsupported_media_type(
        "the body of the request was in an unknown format - "
        f"accepted media types include: {_OFFERED_MEDIA_TYPES}"
    )


def decode_json(body: bytes, prefix: str = "") -> Any:
    """Decode JSON, or raise 400 with Kubernetes' message, after `prefix`."""
    try:
        return msgspec.json.decode(body)
    except RecursionError:
        raise bad_request(f"{prefix}exceeded max depth") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise bad_request(prefix + json_error(body)) from None


def decode_yaml(body: bytes) -> Any:
    """Decode YAML without aliases: a small text must not become a huge object."""
    if body.lstrip()[:1] in (b"{", b"["):
        # All JSON is YAML, and the JSON decoder is a hundred times faster.
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return msgspec.json.decode(body)
    try:
        return load_json_compatible(body)[0]
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        text = " ".join(str(error).split())
        raise bad_request(f"error converting YAML to JSON: yaml: {text}") from error


def find_duplicate_fields(raw: bytes, decoded: Any) -> list[str]:
    """Fields that occur twice in a body, JSON or YAML; call it before `decoded` is changed."""
    if raw.lstrip()[:1] in (b"{", b"["):
        return find_duplicate_json_fields(raw, decoded)
    try:
        repeated = load_json_compatible(raw)[1]
    except (yaml.YAMLError, RecursionError, ValueError):
        return []
    if not repeated:
        return []
    return ["yaml: unmarshal errors:" + "".join(f"\n  {each}" for each in repeated)]


def json_error(body: bytes) -> str:
    """The message of Go's decoder for a text that is not JSON."""
    try:
        json.loads(body)
    except UnicodeDecodeError as error:
        return f"invalid character {_format_go_character(body[error.start])} in string literal"
    except json.JSONDecodeError as error:
        text = error.doc
        if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated"):
            return "unexpected end of JSON input"
        where = {
            "Extra data": "after top-level value",
            "Expecting ',' delimiter": "after object key:value pair",
            "Expecting ':' delimiter": "after object key",
            "Expecting property name enclosed in double quotes": "looking for beginning of object "
            "key string",
        }.get(error.msg, "looking for beginning of value")
        if error.msg == "Expecting ',' delimiter" and _is_inside_list(text, error.pos):
            where = "after array element"
        return f"invalid character {_format_go_character(ord(text[error.pos]))} {where}"
    except RecursionError:
        return "exceeded max depth"
    except ValueError:
        # Python limits the digits of a number, Go its range.
        return "number out of range"
    return "invalid JSON"


def _is_inside_list(text: str, position: int) -> bool:
    opened: list[str] = []
    for letter in text[:position]:
        if letter in "[{":
            opened.append(letter)
        elif letter in "]}" and opened:
            opened.pop()
    return bool(opened) and opened[-1] == "["


def _format_go_character(code: int) -> str:
    return repr(chr(code)) if chr(code) != "'" else "'\\''"


def summarize_body(body: bytes) -> str:
    """The start of a body, for a message: verbatim if it looks like JSON, else in hex."""
    if not body:
        return "<empty>"
    start = body[:_SUMMARY_BYTES]
    text = start.decode(errors="replace") if body.startswith(b"{") else start.hex()
    return text if len(body) <= _SUMMARY_BYTES else f"{text} ..."


def _require_object(value: Any) -> JsonObject:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise bad_request(
            "couldn't get version/kind; json parse error: json: cannot unmarshal "
            f"{go_json_kind(value)} "
            'into Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
            'Kind string "json:\\"kind,omitempty\\"" }'
        )
    return cast(JsonObject, value)


def _resolve_media_type(media_type: str) -> str | None:
    if media_type in (JSON, "*/*", ""):
        return JSON
    if media_type in (YAML, "application/x-yaml"):
        return YAML
    return None


def _parse_representation(parameters: dict[str, str]) -> Representation | None:
    target = parameters.get("as")
    if target is None:
        return Representation.OBJECT
    if parameters.get("g") != "meta.k8s.io" or parameters.get("v") not in ("v1", "v1beta1"):
        return None
    return {
        "Table": Representation.TABLE,
        "PartialObjectMetadata": Representation.METADATA,
        "PartialObjectMetadataList": Representation.METADATA,
    }.get(target)


def _parse_accept(accept: str) -> list[tuple[str, dict[str, str]]]:
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
