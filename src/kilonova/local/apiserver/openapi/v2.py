"""An empty OpenAPI v2 document: kubectl requests it for kinds that are not served.

If the document lacks a kind, kubectl skips validation and reports that the server does not have the
kind. Without a document it fails earlier, with another error. So the document is valid and empty;
all schemas are in OpenAPI v3.
"""

import msgspec

PATH = "/openapi/v2"
_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_ACCEPT_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


def openapi_v2_document(accept: str, version: str) -> tuple[bytes, str]:
    """The body and its content type."""
    title = "Kubernetes"
    if _ACCEPT_PROTOBUF in accept or _PROTOBUF in accept:
        info = _encode_field(1, title.encode()) + _encode_field(2, version.encode())
        paths = _encode_field(8, b"")
        return _encode_field(1, b"2.0") + _encode_field(2, info) + paths, _PROTOBUF
    info = {"title": title, "version": version}
    return (
        msgspec.json.encode({"swagger": "2.0", "info": info, "paths": {}}),
        "application/json",
    )


def _encode_field(number: int, content: bytes) -> bytes:
    """A length-delimited protobuf field; all of ours are short."""
    assert len(content) < 0x80
    return bytes([number << 3 | 2, len(content)]) + content
