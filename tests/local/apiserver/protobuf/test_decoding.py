"""Decoding beyond the recorded bodies: zero values, special types, hostile bytes."""

import base64
import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apiserver.protobuf import decode_object
from kilonova.local.apiserver.protobuf.table import MessageField, load_table

BODIES = [
    base64.b64decode(vector["body"])
    for vector in json.loads(Path(__file__).with_name("vectors.json").read_text(encoding="utf-8"))
]


def varint(value: int) -> bytes:
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def message(field: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return varint(field << 3 | 2) + varint(len(content)) + content


def double(field: int, value: float) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<d", value)


def envelope(api_version: str, kind: str, *parts: bytes) -> bytes:
    type_meta = message(1, message(1, api_version.encode()), message(2, kind.encode()))
    return b"k8s\0" + type_meta + message(2, *parts) + message(3) + message(4)


def is_rejected(body: bytes, **arguments: str) -> str:
    with pytest.raises(ApiError) as raised:
        decode_object(body, **arguments)
    assert (raised.value.code, raised.value.reason) == (400, "BadRequest")
    return raised.value.message


def test_zero_value_is_omitted_and_zero_pointer_is_kept():
    spec = message(2, number(1, 0), number(7, 0), number(9, 0))
    deployment = decode_object(envelope("apps/v1", "Deployment", spec))
    assert deployment["spec"] == {
        "replicas": 0,
        "progressDeadlineSeconds": 0,
        "strategy": {},
        "template": {"metadata": {}, "spec": {}},
    }


def test_zero_without_omitempty_is_present_without_bytes():
    status = decode_object(envelope("v1", "Pod", message(3, message(8, message(1, b"main")))))[
        "status"
    ]
    assert status["containerStatuses"] == [
        {
            "name": "main",
            "state": {},
            "lastState": {},
            "ready": False,
            "restartCount": 0,
            "image": "",
            "imageID": "",
        }
    ]


@pytest.mark.parametrize(
    ("parts", "seen"),
    [
        ([number(1, 1767323045), number(2, 999)], "2026-01-02T03:04:05Z"),
        ([number(1, -1)], "1969-12-31T23:59:59Z"),
        ([number(1, -62135596799)], "0001-01-01T00:00:01Z"),
        ([number(1, -62135596800)], None),
        ([], None),
    ],
)
def test_time_is_in_seconds(parts: list[bytes], seen: str | None):
    pod = decode_object(envelope("v1", "Pod", message(1, message(8, *parts))))
    assert pod["metadata"].get("creationTimestamp") == seen


@pytest.mark.parametrize(
    ("parts", "seen"),
    [
        ([number(1, 1767323045)], "2026-01-02T03:04:05.000000Z"),
        ([number(1, 1767323045), number(2, 1999)], "2026-01-02T03:04:05.000001Z"),
        ([number(1, 1), number(2, -1_500_000)], "1970-01-01T00:00:00.998500Z"),
        ([], None),
    ],
)
def test_micro_time_has_six_digits(parts: list[bytes], seen: str | None):
    lease = decode_object(
        envelope("coordination.k8s.io/v1", "Lease", message(2, message(4, *parts)))
    )
    assert lease["spec"].get("renewTime") == seen


def test_time_beyond_the_calendar_is_rejected():
    body = envelope("v1", "Pod", message(1, message(8, number(1, 1 << 62))))
    assert "year outside of range" in is_rejected(body)


@pytest.mark.parametrize(
    ("parts", "seen"),
    [
        ([number(1, 0), number(2, 8080)], 8080),
        ([number(1, 0), number(2, -1)], -1),
        ([number(1, 1), number(2, 5), message(3, b"http")], "http"),
        ([number(1, 0), number(2, 0)], None),
        ([number(1, 1), message(3)], None),
    ],
)
def test_port_is_a_number_or_a_name_and_omitted_if_zero(parts: list[bytes], seen: Any):
    service = decode_object(envelope("v1", "Service", message(2, message(1, message(4, *parts)))))
    assert service["spec"]["ports"][0].get("targetPort") == seen


def test_lists_of_numbers_decode_packed_or_not():
    context = message(14, number(4, 1), number(4, 2), message(4, varint(3), varint(-4)))
    pod = decode_object(envelope("v1", "Pod", message(2, context)))
    assert pod["spec"]["securityContext"]["supplementalGroups"] == [1, 2, 3, -4]


def test_extra_of_a_user_is_a_map_of_lists():
    extra = message(5, message(1, b"scopes"), message(2, message(1, b"a"), message(1, b"")))
    review = decode_object(
        envelope("authorization.k8s.io/v1", "SubjectAccessReview", message(2, extra))
    )
    assert review["spec"]["extra"] == {"scopes": ["a", ""]}


def crd_schema(*parts: bytes) -> bytes:
    version = message(7, message(1, b"v1"), message(4, message(1, *parts)))
    return envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", message(2, version))


@pytest.mark.parametrize(
    ("parts", "seen"),
    [
        (double(9, 10.0), {"maximum": 10}),
        (double(9, 0.5), {"maximum": 0.5}),
        (message(30, number(1, 1)), {"additionalProperties": True}),
        (message(30, number(1, 0)), {"additionalProperties": False}),
        (
            message(30, number(1, 1), message(2, message(5, b"string"))),
            {"additionalProperties": {"type": "string"}},
        ),
        (message(24, message(1, message(5, b"string"))), {"items": {"type": "string"}}),
        (message(24, message(2, message(5, b"string"))), {"items": [{"type": "string"}]}),
        (
            message(32, message(1, b"a"), message(2, message(2, b"b"))),
            {"dependencies": {"a": ["b"]}},
        ),
        (
            message(20, message(1, b"1")) + message(20, message(1, b"null")),
            {"enum": [1, None]},
        ),
        (message(8, message(1, b"{}")), {"default": {}}),
    ],
)
def test_schemas_decode_to_their_json_forms(parts: bytes, seen: dict[str, Any]):
    versions = decode_object(crd_schema(parts))["spec"]["versions"]
    assert versions[0]["schema"]["openAPIV3Schema"] == seen


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_number_that_json_cannot_write_is_rejected(value: float):
    assert "unsupported value" in is_rejected(crd_schema(double(9, value)))


def test_delete_options_decode_in_every_version():
    options = envelope("apps/v1", "DeleteOptions", number(1, 0), message(4, b"Background"))
    assert decode_object(options) == {
        "apiVersion": "apps/v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    }


def test_endpoint_supplies_a_missing_api_version_and_kind():
    body = b"k8s\0" + message(2, message(1, message(1, b"x")))
    assert decode_object(body, "v1", "ConfigMap") == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x"},
    }


def test_unknown_fields_are_skipped():
    group = varint(3000 << 3 | 3) + number(1, 7) + message(2, b"x") + varint(3000 << 3 | 4)
    fixed = varint(3001 << 3 | 5) + b"1234" + varint(3002 << 3 | 1) + b"12345678"
    unknown = number(2999, 1) + group + fixed + message(3003, b"later")
    body = envelope("v1", "ConfigMap", unknown, message(1, message(1, b"x"), unknown), unknown)
    assert decode_object(body)["metadata"] == {"name": "x"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the object provided is unrecognized (must be of type Pod): empty data (<empty>)"),
        (b"k8s\0", "the object provided is unrecognized (must be of type Pod): empty body"),
        (b"{}", "provided data does not appear to be a protobuf message"),
        (b"k8s\0\x0a\xff", "the object provided is unrecognized (must be of type Pod): unexpected"),
        (
            envelope("v1", "Nonsense"),
            'Nonsense in version "v1" cannot be handled as a Pod: '
            'no kind "Nonsense" is registered for version "v1"',
        ),
        (
            envelope("v1", "Pod", number(1, 5)),
            'Pod in version "v1" cannot be handled as a Pod: '
            "proto: wrong wireType = 0 for field metadata",
        ),
        (envelope("v1", "Pod", varint(3000 << 3 | 4)), "proto: illegal wireType 4"),
        (envelope("v1", "Pod", varint(3000 << 3 | 7)), "proto: illegal wireType 7"),
        (envelope("v1", "Pod", b"\x00\x00"), "proto: illegal tag 0"),
        (envelope("v1", "Pod", b"\xff" * 11), "proto: integer overflow"),
        (envelope("v1", "Pod", varint(3000 << 3 | 3)), "unexpected EOF"),
        (envelope("v1", "Pod", varint(1 << 3 | 2) + varint(1 << 63)), "unexpected EOF"),
        (envelope("v1", "Pod", varint(3000 << 3 | 2) + varint(1 << 63)), "unexpected EOF"),
        (
            envelope("apps/v1", "ControllerRevision", message(2, message(1, b"{"))),
            "raw JSON within the message",
        ),
        (
            envelope("apps/v1", "ControllerRevision", message(2, message(1, b"[" * 100_000))),
            "raw JSON within the message",
        ),
    ],
)
def test_invalid_bytes_are_a_bad_request(body: bytes, message: str):
    assert message in is_rejected(body, api_version="v1", kind="Pod")


def test_too_deeply_nested_schemas_are_rejected():
    nested = b""
    for _ in range(5000):
        nested = message(28, nested)
    assert "nested deeper" in is_rejected(crd_schema(nested))


def test_truncated_bodies_decode_or_are_rejected():
    cut = [body[:end] for body in BODIES for end in range(len(body))]
    errors = [error for error in map(_decode_error, cut) if error]
    # Only a cut between two fields of the envelope leaves a valid body.
    assert len(cut) - len(errors) <= 4 * len(BODIES)
    assert {error.code for error in errors} == {400}


@given(
    st.sampled_from(BODIES), st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=8)
)
def test_damaged_bodies_decode_or_are_rejected(body: bytes, damage: list[tuple[int, int]]):
    damaged = bytearray(body)
    for place, byte in damage:
        damaged[place % len(body)] = byte
    refusal = _decode_error(bytes(damaged))
    assert refusal is None or refusal.code == 400


@given(st.sampled_from(["Pod", "Event", "Node", "Secret"]), st.binary(max_size=200))
def test_random_messages_decode_or_are_rejected(kind: str, content: bytes):
    refusal = _decode_error(envelope("v1", kind, content))
    assert refusal is None or refusal.code == 400


def _decode_error(body: bytes) -> ApiError | None:
    """The error for a body, or None; any other exception fails the test."""
    try:
        json.dumps(decode_object(body), allow_nan=False)
    except ApiError as error:
        return error
    return None


SCALARS: dict[str, Any] = {
    "string": st.text(st.characters(codec="utf-8"), max_size=5),
    "bool": st.booleans(),
    "int32": st.integers(-(1 << 31), (1 << 31) - 1),
    "int64": st.integers(-(1 << 63), (1 << 63) - 1),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "bytes": st.binary(max_size=5),
    "quantity": st.sampled_from(["1", "500m", "2Gi"]),
    "int-or-string": st.one_of(st.integers(1, 65535), st.text("abc", min_size=1, max_size=3)),
    "time": st.integers(0, 1 << 32),
    "microtime": st.integers(0, 1 << 32),
    "json": st.dictionaries(st.text("ab"), st.integers(0, 9), max_size=2),
    "string-list": st.lists(st.text("ab", max_size=2), max_size=2),
}


def encoded(type_name: str, value: Any, field: int) -> bytes:
    """One field, encoded as by Go, from its JSON value."""
    if type_name in ("bool", "int32", "int64"):
        return number(field, int(value))
    if type_name == "double":
        return double(field, value)
    if type_name == "string":
        return message(field, value.encode())
    if type_name == "bytes":
        return message(field, base64.b64decode(value))
    if type_name == "quantity":
        return message(field, message(1, value.encode()))
    if type_name == "json":
        return message(field, message(1, json.dumps(value).encode()))
    if type_name == "string-list":
        return message(field, *(message(1, item.encode()) for item in value))
    if type_name == "int-or-string":
        name = isinstance(value, str)
        return message(
            field,
            number(1, name),
            number(2, 0 if name else value),
            message(3, value.encode() if name else b""),
        )
    return message(field, encoded_object(type_name, value))


def encoded_object(type_name: str, obj: dict[str, Any]) -> bytes:
    return b"".join(encoded_field(row, obj) for row in load_table().messages[type_name])


def encoded_field(row: MessageField, obj: dict[str, Any]) -> bytes:
    if row.shape == "inline":
        return message(row.number, encoded_object(row.type, obj))
    if row.name not in obj:
        return b""
    value = obj[row.name]
    if row.shape == "list":
        return b"".join(encoded(row.type, item, row.number) for item in value)
    if row.shape == "map":
        entries = (
            (message(1, key.encode()), encoded(row.type, item, 2)) for key, item in value.items()
        )
        return b"".join(message(row.number, *entry) for entry in entries)
    return encoded(row.type, value, row.number)


@st.composite
def objects(draw: st.DrawFn, type_name: str, depth: int = 0) -> dict[str, Any]:
    """An object of a message's type, as JSON; times are excluded and have tests of their own."""
    obj: dict[str, Any] = {}
    for row in load_table().messages[type_name]:
        if row.type in ("time", "microtime") or "JSONSchema" in row.type:
            continue
        if row.shape == "inline":
            obj.update(draw(objects(row.type, depth)))
        elif row.shape == "keep" or (depth < 4 and draw(st.integers(0, 5)) == 0):
            value = _values(row.type, depth)
            if row.shape == "list":
                value = st.lists(value, min_size=1, max_size=2)
            elif row.shape == "map":
                value = st.dictionaries(st.text("xyz", max_size=2), value, min_size=1, max_size=2)
            elif row.shape == "omit":
                value = value.filter(bool)
            obj[row.name] = draw(value)
    return obj


def _values(type_name: str, depth: int) -> st.SearchStrategy[Any]:
    if type_name == "bytes":
        return SCALARS["bytes"].map(lambda raw: base64.b64encode(raw).decode())
    return SCALARS[type_name] if type_name in SCALARS else objects(type_name, depth + 1)


KINDS = [
    (version, kind)
    for version, kinds in load_table().kinds.items()
    for kind in kinds
    if version != "*" and kind not in ("CustomResourceDefinition", "ConversionReview")
]


@given(st.data())
def test_every_object_round_trips(data: st.DataObject):
    api_version, kind = data.draw(st.sampled_from(KINDS))
    type_name = load_table().find_message(api_version, kind)
    assert type_name is not None
    obj = data.draw(objects(type_name))
    body = envelope(api_version, kind, encoded_object(type_name, obj))
    assert decode_object(body) == {"apiVersion": api_version, "kind": kind, **obj}
