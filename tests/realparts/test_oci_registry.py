"""The OCI registry of the real parts takes and gives an image that `tools.image` made."""

import http.client
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.harness.http_probe import fetch
from tests.harness.oci_registry import OciRegistry
from tools.image.archive import Image, ImageConfig, build_image
from tools.image.layers import build_layer


@pytest.fixture
def registry(oci_registry_part: Path, tmp_path: Path) -> Iterator[str]:
    with OciRegistry.start(oci_registry_part, tmp_path) as registry:
        yield registry.address


@pytest.fixture
def image(tmp_path: Path) -> Image:
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "greeting").write_text("hello")
    config = ImageConfig(entrypoint=("greeting",), user="65532", environment={}, labels={})
    return build_image([build_layer(folder, "a test")], config)


def test_image_is_pulled_as_it_was_pushed(registry: str, image: Image) -> None:
    push(registry, image, "small", "1")
    accept = {"accept": str(image.manifest["mediaType"])}
    status, headers, pulled = send(registry, "GET", "/v2/small/manifests/1", headers=accept)
    assert (status, pulled) == (200, image.blobs[image.digest])
    assert headers["docker-content-digest"] == image.digest
    for descriptor in json.loads(pulled)["layers"]:
        digest = descriptor["digest"]
        assert fetch(f"http://{registry}/v2/small/blobs/{digest}") == (200, image.blobs[digest])


def test_blob_that_is_not_its_digest_is_refused(registry: str) -> None:
    status = upload(registry, "small", f"sha256:{'0' * 64}", b"something else")
    assert status == 400


def push(registry: str, image: Image, repository: str, tag: str) -> None:
    """Upload the blobs, then the manifest that names them."""
    manifest = image.blobs[image.digest]
    for digest, content in image.blobs.items():
        if digest != image.digest:
            assert upload(registry, repository, digest, content) == 201
    headers = {"content-type": str(image.manifest["mediaType"])}
    path = f"/v2/{repository}/manifests/{tag}"
    assert send(registry, "PUT", path, manifest, headers)[0] == 201


def upload(registry: str, repository: str, digest: str, content: bytes) -> int:
    status, headers, _body = send(registry, "POST", f"/v2/{repository}/blobs/uploads/")
    assert status == 202
    place = urlsplit(headers["location"])
    path = f"{place.path}?{place.query}&digest={digest}"
    kind = {"content-type": "application/octet-stream"}
    return send(registry, "PUT", path, content, kind)[0]


def send(
    registry: str,
    method: str,
    path: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> tuple[int, Mapping[str, str], bytes]:
    """Status, headers and body of the answer."""
    connection = http.client.HTTPConnection(registry, timeout=30)
    try:
        connection.request(method, path, body, dict(headers or {}))
        reply = connection.getresponse()
        answered = {name.lower(): value for name, value in reply.getheaders()}
        return reply.status, answered, reply.read()
    finally:
        connection.close()
