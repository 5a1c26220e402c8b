"""The envelope around a message, and the entry point of decoding."""

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import ApiError, bad_request
from kilonova.local.apiserver.protobuf.messages import message_reader
from kilonova.local.apiserver.protobuf.table import load_table
from kilonova.local.apiserver.protobuf.values import read_string
from kilonova.local.apiserver.protobuf.wire import BYTES, MalformedMessage, iterate_fields

_PREFIX = b"k8s\0"
_FIRST_TAG, _SECOND_TAG = 1 << 3 | BYTES, 2 << 3 | BYTES


def decode_object(body: bytes, api_version: str = "", kind: str = "") -> JsonObject:
    """Decode the object in a protobuf body to JSON, with apiVersion and kind.

    `api_version` and `kind` are those of the endpoint, used if the envelope has none. Any invalid
    body raises `ApiError` 400.
    """
    found_version = found_kind = ""
    try:
        found_version, found_kind, start, stop = _read_envelope(body)
        found_version = found_version or api_version
        found_kind = found_kind or kind
        obj: JsonObject = {"apiVersion": found_version, "kind": found_kind}
        message = load_table().find_message(found_version, found_kind)
        if message is None:
            raise MalformedMessage(
                f'no kind "{found_kind}" is registered for version "{found_version}"'
            )
        obj.update(message_reader(message)(body, start, stop, 0))
        return obj
    except IndexError:
        raise _decode_error(body, found_version, found_kind, kind, "unexpected EOF") from None
    except MalformedMessage as error:
        raise _decode_error(body, found_version, found_kind, kind, str(error)) from None


def _read_envelope(body: bytes) -> tuple[str, str, int, int]:
    """apiVersion, kind, and the position of the message."""
    if not body:
        raise MalformedMessage("empty data")
    if not body.startswith(_PREFIX):
        raise MalformedMessage(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    if len(body) == len(_PREFIX):
        raise MalformedMessage("empty body")
    api_version, kind = "", ""
    start = stop = 0
    for tag, begin, end in iterate_fields(body, len(_PREFIX), len(body)):
        if tag == _FIRST_TAG:
            for inner, first, last in iterate_fields(body, begin, end):
                if inner == _FIRST_TAG:
                    api_version = read_string(body, first, last)
                elif inner == _SECOND_TAG:
                    kind = read_string(body, first, last)
        elif tag == _SECOND_TAG:
            start, stop = begin, end
    return api_version, kind, start, stop


def _decode_error(body: bytes, api_version: str, kind: str, expected: str, cause: str) -> ApiError:
    if kind:
        version = api_version.rpartition("/")[2]
        return bad_request(
            f'{kind} in version "{version}" cannot be handled as a {expected or kind}: {cause}'
        )
    summary = f"{body[:30].hex()} ..." if len(body) > 30 else body.hex() or "<empty>"
    suffix = f" (must be of type {expected})" if expected else ""
    return bad_request(f"the object provided is unrecognized{suffix}: {cause} ({summary})")
