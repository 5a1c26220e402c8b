"""The messages of the v2 protocol in the JSON of its HTTP form.

It differs from protobuf's JSON: names are those of the .proto file, and 64-bit integers are
numbers.
"""

from typing import Any, TypeVar, cast

import msgspec
from google.protobuf import json_format
from google.protobuf.message import Message

from kilonova.serving.grpc import inference_pb2 as pb

M = TypeVar("M", bound=Message)


def encode_message(message: Message) -> bytes:
    """A message as the body of a response."""
    if isinstance(message, pb.RepositoryIndexResponse):
        return _encode([_to_json(each) for each in message.models])
    if isinstance(message, pb.ModelConfigResponse):
        return _encode(_to_json(message.config))
    return _encode(_to_json(message))


def decode_message(kind: type[M], body: bytes) -> M:
    """A message from the body of a response; ValueError if it is none."""
    content: Any = msgspec.json.decode(body) if body else {}
    if kind is pb.RepositoryIndexResponse:
        content = {"models": content}
    elif kind is pb.ModelConfigResponse:
        content = {"config": content}
    try:
        return json_format.ParseDict(content, kind(), ignore_unknown_fields=True)
    except json_format.ParseError as error:
        raise ValueError(str(error)) from None


def _encode(content: object) -> bytes:
    return msgspec.json.encode(content)


def _to_json(message: Message) -> object:
    content = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return _restore_integers(message, content)


def _restore_integers(message: Message, content: dict[str, Any]) -> dict[str, Any]:
    """The same content, with numbers where protobuf's JSON has text."""
    for field in message.DESCRIPTOR.fields:
        if field.name not in content:
            continue
        value = content[field.name]
        if field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64):
            many = isinstance(value, list)
            content[field.name] = (
                [int(each) for each in cast("list[str]", value)] if many else int(value)
            )
        elif field.message_type is not None:
            inner: Any = getattr(message, field.name)
            if field.message_type.GetOptions().map_entry:
                for key, each in value.items():
                    if isinstance(each, dict):
                        _restore_integers(inner[key], cast("dict[str, Any]", each))
            elif isinstance(value, list):
                for each, part in zip(inner, cast("list[dict[str, Any]]", value), strict=True):
                    _restore_integers(each, part)
            else:
                _restore_integers(inner, value)
    return content
