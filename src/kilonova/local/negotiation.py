"""What the client sends and what it wants back: media types, both ways."""

import json
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, cast

import msgspec
import yaml

from kilonova.api.json import JsonObject
from kilonova.local.errors import ApiError, bad_request, not_acceptable, unsupported_media_type
from kilonova.local.patch.values import go_kind
from kilonova.local.plainyaml import load_plain
from kilonova.local.schema.duplicates import duplicate_fields

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_OFFERED = f"{JSON}, {YAML}, {PROTOBUF}"
_SUMMARY_BYTES = 30


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
    version: str = "v1"  # of the group meta.k8s.io, for tables and metadata
    of_one: bool = False  # asked for as the metadata of one object

    @property
    def content_type(self) -> str:
        return self.media_type


@lru_cache(maxsize=256)
def wanted(accept: str, *, is_list: bool = False) -> Wanted:
    """The first acceptable clause of an Accept header; 406 where there is none.

    `is_list` tells whether a whole collection is asked for, in a list or a watch.
    """
    is_media_type_offered = False
    for media_type, parameters in _clauses(accept):
        concrete = _concrete(media_type)
        if concrete is None:
            continue
        is_media_type_offered = True
        shape = _shape(parameters)
        if shape is not None:
            of_one = parameters.get("as") == "PartialObjectMetadata"
            return Wanted(shape, concrete, parameters.get("v", "v1"), of_one)
    if is_media_type_offered:
        raise not_acceptable(_OFFERED)
    representations = _OFFERED
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
        return _object(decode_json(body, "couldn't get version/kind; json parse error: "))
    if media_type in (YAML, "application/x-yaml"):
        return _object(decode_yaml(body))
    raise unsupported_media_type(
        "the body of the request was in an unknown format - "
        f"accepted media types include: {_OFFERED}"
    )


def decode_json(body: bytes, prefix: str = "") -> Any:
    """JSON, or 400 that says what is wrong in the words of Kubernetes, after `prefix`."""
    try:
        return msgspec.json.decode(body)
    except RecursionError:
        raise bad_request(f"{prefix}exceeded max depth") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise bad_request(prefix + json_fault(body)) from None


def decode_yaml(body: bytes) -> Any:
    """YAML without aliases: a small text must not become a huge object."""
    if body.lstrip()[:1] in (b"{", b"["):
        # All JSON is YAML, and its reader is a hundred times faster.
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return msgspec.json.decode(body)
    try:
        return load_plain(body)[0]
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        text = " ".join(str(error).split())
        raise bad_request(f"error converting YAML to JSON: yaml: {text}") from error


def repeated_fields(raw: bytes, decoded: Any) -> list[str]:
    """What is given twice in a body, JSON or YAML; call it before `decoded` is changed."""
    if raw.lstrip()[:1] in (b"{", b"["):
        return duplicate_fields(raw, decoded)
    try:
        repeated = load_plain(raw)[1]
    except (yaml.YAMLError, RecursionError, ValueError):
        return []
    if not repeated:
        return []
    return ["yaml: unmarshal errors:" + "".join(f"\n  {each}" for each in repeated)]


def json_fault(body: bytes) -> str:
    """What Go's decoder would say of a text that is not JSON."""
    try:
        json.loads(body)
    except UnicodeDecodeError as error:
        return f"invalid character {_go_character(body[error.start])} in string literal"
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
        if error.msg == "Expecting ',' delimiter" and _inside_list(text, error.pos):
            where = "after array element"
        return f"invalid character {_go_character(ord(text[error.pos]))} {where}"
    except RecursionError:
        return "exceeded max depth"
    except ValueError:
        # Python reads no numbers of so many digits, Go none that no float holds.
        return "number out of range"
    return "invalid JSON"


def _inside_list(text: str, position: int) -> bool:
    opened: list[str] = []
    for letter in text[:position]:
        if letter in "[{":
            opened.append(letter)
        elif letter in "]}" and opened:
            opened.pop()
    return bool(opened) and opened[-1] == "["


def _go_character(code: int) -> str:
    return repr(chr(code)) if chr(code) != "'" else "'\\''"


def summary(body: bytes) -> str:
    """The start of a body, for a message: as it is if it looks like JSON, else in hex."""
    if not body:
        return "<empty>"
    start = body[:_SUMMARY_BYTES]
    text = start.decode(errors="replace") if body.startswith(b"{") else start.hex()
    return text if len(body) <= _SUMMARY_BYTES else f"{text} ..."


def _object(value: Any) -> JsonObject:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise bad_request(
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {go_kind(value)} "
            'into Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
            'Kind string "json:\\"kind,omitempty\\"" }'
        )
    return cast(JsonObject, value)


def _concrete(media_type: str) -> str | None:
    if media_type in (JSON, "*/*", ""):
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
