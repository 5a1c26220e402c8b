"""OpenAPI v2, for one question only: kubectl asks it about kinds that nobody serves.

kubectl takes a kind that the document does not have for one that it cannot check, and goes on
to say that the server has no such kind. Without any document it stops at that instead. So the
document is valid and empty; everything that is known stands in OpenAPI v3.
"""

import msgspec

PATH = "/openapi/v2"
_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_ASKED_AS = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


def document(accept: str, version: str) -> tuple[bytes, str]:
    """The body and its content type."""
    title = "Kubernetes"
    if _ASKED_AS in accept or _PROTOBUF in accept:
        info = _field(1, title.encode()) + _field(2, version.encode())
        paths = _field(8, b"")
        return _field(1, b"2.0") + _field(2, info) + paths, _PROTOBUF
    info = {"title": title, "version": version}
    return (
        msgspec.json.encode({"swagger": "2.0", "info": info, "paths": {}}),
        "application/json",
    )


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes in protobuf; all of ours are short."""
    assert len(content) < 0x80
    return bytes([number << 3 | 2, len(content)]) + content
