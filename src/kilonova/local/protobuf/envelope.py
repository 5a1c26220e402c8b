"""The envelope around a message, and the one door to decoding."""

from kilonova.api.json import JsonObject
from kilonova.local.errors import ApiError, bad_request
from kilonova.local.protobuf.messages import reader
from kilonova.local.protobuf.table import table
from kilonova.local.protobuf.values import text
from kilonova.local.protobuf.wire import BYTES, Malformed, fields

_PREFIX = b"k8s\0"
_FIRST, _SECOND = 1 << 3 | BYTES, 2 << 3 | BYTES


def decode(body: bytes, api_version: str = "", kind: str = "") -> JsonObject:
    """The JSON object in a protobuf body, with its apiVersion and kind.

    `api_version` and `kind` are what the endpoint takes: they stand in where the envelope names
    none. Bytes that are no such object raise ApiError 400, whatever they are.
    """
    found_version = found_kind = ""
    try:
        found_version, found_kind, start, stop = _open(body)
        found_version = found_version or api_version
        found_kind = found_kind or kind
        obj: JsonObject = {"apiVersion": found_version, "kind": found_kind}
        message = table().message_of(found_version, found_kind)
        if message is None:
            raise Malformed(f'no kind "{found_kind}" is registered for version "{found_version}"')
        obj.update(reader(message)(body, start, stop, 0))
        return obj
    except IndexError:
        raise _refusal(body, found_version, found_kind, kind, "unexpected EOF") from None
    except Malformed as error:
        raise _refusal(body, found_version, found_kind, kind, str(error)) from None


def _open(body: bytes) -> tuple[str, str, int, int]:
    """apiVersion, kind, and where the message is."""
    if not body:
        raise Malformed("empty data")
    if not body.startswith(_PREFIX):
        raise Malformed(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    if len(body) == len(_PREFIX):
        raise Malformed("empty body")
    api_version, kind = "", ""
    start = stop = 0
    for tag, begin, end in fields(body, len(_PREFIX), len(body)):
        if tag == _FIRST:
            for inner, first, last in fields(body, begin, end):
                if inner == _FIRST:
                    api_version = text(body, first, last)
                elif inner == _SECOND:
                    kind = text(body, first, last)
        elif tag == _SECOND:
            start, stop = begin, end
    return api_version, kind, start, stop


def _refusal(body: bytes, api_version: str, kind: str, wanted: str, why: str) -> ApiError:
    if kind:
        version = api_version.rpartition("/")[2]
        return bad_request(
            f'{kind} in version "{version}" cannot be handled as a {wanted or kind}: {why}'
        )
    summary = f"{body[:30].hex()} ..." if len(body) > 30 else body.hex() or "<empty>"
    must_be = f" (must be of type {wanted})" if wanted else ""
    return bad_request(f"the object provided is unrecognized{must_be}: {why} ({summary})")
