"""The S3 server of the real parts: objects are written and read by signed requests."""

import hashlib
import hmac
import http.client
from datetime import UTC, datetime
from pathlib import Path

from tests.harness.s3_server import S3Server


def test_object_is_read_as_it_was_written(s3_server_part: Path, tmp_path: Path) -> None:
    with S3Server.start(s3_server_part, tmp_path) as server:
        server.create_bucket("models")
        assert send(server, "PUT", "/models/greeting", b"hello")[0] == 200
        assert send(server, "GET", "/models/greeting") == (200, b"hello")
        assert send(server, "GET", "/models/absent")[0] == 404


def test_unsigned_request_is_denied(s3_server_part: Path, tmp_path: Path) -> None:
    with S3Server.start(s3_server_part, tmp_path) as server:
        server.create_bucket("models")
        assert request(server, "GET", "/models/greeting", b"", {})[0] == 403


def send(server: S3Server, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """A request with a signature of version 4."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(body).hexdigest()
    signed = {
        "host": server.url.removeprefix("http://"),
        "x-amz-content-sha256": digest,
        "x-amz-date": stamp,
    }
    names = ";".join(signed)
    lines = "".join(f"{name}:{value}\n" for name, value in signed.items())
    canonical = f"{method}\n{path}\n\n{lines}\n{names}\n{digest}"
    scope = f"{stamp[:8]}/{server.region}/s3/aws4_request"
    summary = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{server.secret_key}".encode()
    for word in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{summary}"):
        key = hmac.digest(key, word.encode(), "sha256")
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={server.access_key}/{scope}, "
        f"SignedHeaders={names}, Signature={key.hex()}"
    )
    return request(server, method, path, body, {**signed, "authorization": authorization})


def request(
    server: S3Server, method: str, path: str, body: bytes, headers: dict[str, str]
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=30)
    try:
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()
