"""Artifacts in a real registry: pulled as they were pushed, verified, with every kind of login."""

import base64
import json
from collections.abc import AsyncGenerator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from kilonova.objectstore import (
    AccessDenied,
    ChecksumMismatch,
    NotFound,
    ObjectStoreError,
    ObjectTooLarge,
    StoreNotUsable,
    Unavailable,
)
from kilonova.objectstore.oci.credentials import RegistryCredentials
from kilonova.objectstore.oci.location import OciLocation, parse_oci_location
from kilonova.objectstore.oci.manifests import describe
from kilonova.objectstore.oci.repository import OciRepository
from tests.harness.oci_registry import OciRegistry
from tests.objectstore.oci.token_server import TokenServer

TYPE = "application/vnd.test.v1"
CONTENT = b"what was pushed"
LAYER = describe(CONTENT, "text/plain")
LOGIN = {"REGISTRY_AUTH": f"{OciRegistry.user}:{OciRegistry.password}"}


@pytest.fixture(scope="module")
def registry(
    oci_registry_part: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OciRegistry]:
    """An open registry."""
    with OciRegistry.start(oci_registry_part, tmp_path_factory.mktemp("registry")) as registry:
        yield registry


@pytest.fixture(scope="module")
def guarded_registry(
    oci_registry_part: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OciRegistry]:
    """One that wants a password."""
    folder = tmp_path_factory.mktemp("guarded")
    with OciRegistry.start_with_users(oci_registry_part, folder) as registry:
        yield registry


@pytest.fixture
async def repository(
    registry: OciRegistry, request: pytest.FixtureRequest
) -> AsyncGenerator[OciRepository]:
    """A repository of its own for each test."""
    name = request.node.name.replace("_", "-")
    async with connect(registry, name) as repository:
        yield repository


def connect(
    registry: OciRegistry, name: str, environment: dict[str, str] | None = None
) -> OciRepository:
    location = parse_oci_location(f"oci://{registry.address}/{name}")
    return OciRepository(location, RegistryCredentials(environment or {"DOCKER_CONFIG": "/none"}))


async def test_artifact_is_pulled_as_it_was_pushed(repository: OciRepository) -> None:
    pushed = await repository.push("v1", TYPE, ((LAYER, CONTENT),), {"note": "of a test"})
    for reference in ("v1", pushed):
        pulled = await repository.pull_manifest(reference)
        assert pulled.digest == pushed
        assert pulled.manifest.type == TYPE
        assert pulled.manifest.annotations == {"note": "of a test"}
        assert pulled.manifest.layers == (LAYER,)
    assert await repository.pull_blob(LAYER) == CONTENT


async def test_tag_is_moved_to_what_is_pushed_last(repository: OciRepository) -> None:
    first = await repository.push("latest", TYPE, ((LAYER, CONTENT),))
    other = describe(b"other", "text/plain")
    second = await repository.push("latest", TYPE, ((other, b"other"),))
    assert (await repository.pull_manifest("latest")).digest == second
    assert (await repository.pull_manifest(first)).manifest.layers == (LAYER,)


async def test_all_tags_are_listed_over_pages(
    repository: OciRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await repository.list_tags() == ()
    for tag in ("c", "a", "b"):
        await repository.push(tag, TYPE, ())
    monkeypatch.setattr("kilonova.objectstore.oci.repository.TAGS_PER_PAGE", 2)
    assert await repository.list_tags() == ("a", "b", "c")


async def test_what_is_missing_is_named(repository: OciRepository) -> None:
    absent = describe(b"absent", "text/plain")
    with pytest.raises(NotFound, match=r"what-is-missing-is-named:v9: .*unknown"):
        await repository.pull_manifest("v9")
    with pytest.raises(NotFound, match=f"named@{absent.digest}"):
        await repository.pull_blob(absent)


async def test_blob_that_is_not_its_digest_is_rejected(
    repository: OciRepository, registry: OciRegistry
) -> None:
    content = b"damaged in the registry's store"
    layer = describe(content, "text/plain")
    await repository.push("v1", TYPE, ((layer, content),))
    registry.find_blob(layer.digest).write_bytes(content.upper())
    with pytest.raises(ChecksumMismatch, match=f"expected {layer.digest}; push it again"):
        await repository.pull_blob(layer)


async def test_large_blob_is_pushed_from_a_file_and_read_in_pieces(
    guarded_registry: OciRegistry, tmp_path: Path
) -> None:
    content = bytes(range(256)) * 8192
    file = tmp_path / "weights"
    file.write_bytes(content)
    layer = describe(content, "application/octet-stream")
    async with connect(guarded_registry, "large", LOGIN) as repository:
        await repository.push("v1", TYPE, ((layer, file),))
        async with repository.open_blob(layer) as pieces:
            read = [piece async for piece in pieces]
    assert len(read) > 1
    assert b"".join(read) == content


async def test_damaged_blob_that_is_read_in_pieces_is_rejected_at_its_end(
    repository: OciRepository, registry: OciRegistry
) -> None:
    content = b"damaged on the way to whom reads it in pieces"
    layer = describe(content, "text/plain")
    await repository.push("v1", TYPE, ((layer, content),))
    registry.find_blob(layer.digest).write_bytes(content.upper())

    async def read() -> bytes:
        async with repository.open_blob(layer) as pieces:
            return b"".join([piece async for piece in pieces])

    with pytest.raises(ChecksumMismatch, match=f"expected {layer.digest}"):
        await read()


async def test_missing_blob_is_not_opened(repository: OciRepository) -> None:
    absent = describe(b"absent too", "text/plain")
    with pytest.raises(NotFound, match=f"@{absent.digest}"):
        async with repository.open_blob(absent):
            pass


async def test_manifest_that_is_not_its_digest_is_rejected(
    repository: OciRepository, registry: OciRegistry
) -> None:
    pushed = await repository.push("v1", TYPE, (), {"damaged": "no"})
    path = registry.find_blob(pushed)
    path.write_bytes(path.read_bytes().replace(b'"no"', b'"ja"'))
    # The registry verifies what is read by its digest; so do we.
    with pytest.raises(ObjectStoreError):
        await repository.pull_manifest(pushed)


async def test_too_large_blob_is_not_read(repository: OciRepository) -> None:
    await repository.push("v1", TYPE, ((LAYER, CONTENT),))
    with pytest.raises(ObjectTooLarge, match="above the 3 expected"):
        await repository.pull_blob(LAYER, max_bytes=3)


async def test_registry_that_does_not_run_is_unavailable() -> None:
    async with OciRepository(OciLocation("127.0.0.1:9", "a", plain_http=True)) as repository:
        with pytest.raises(Unavailable, match="check the address, and whether the registry runs"):
            await repository.pull_manifest("v1")


async def test_registry_without_tls_is_explained(registry: OciRegistry) -> None:
    async with OciRepository(OciLocation(registry.address, "a")) as repository:
        with pytest.raises(Unavailable, match=r"add \?plain-http=true to the URL"):
            await repository.pull_manifest("v1")


async def test_registry_with_users_wants_credentials(guarded_registry: OciRegistry) -> None:
    async with connect(guarded_registry, "a") as repository:
        with pytest.raises(AccessDenied, match="requires credentials, and none were found") as none:
            await repository.pull_manifest("v1")
    assert f"docker login {guarded_registry.address}" in none.value.fix


async def test_wrong_password_is_denied_and_not_shown(guarded_registry: OciRegistry) -> None:
    environment = {"REGISTRY_AUTH": "ada:wrong-secret"}
    async with connect(guarded_registry, "a", environment) as repository:
        with pytest.raises(AccessDenied, match="rejects the credentials of user 'ada'") as denied:
            await repository.push("v1", TYPE, ((LAYER, CONTENT),))
    assert "wrong-secret" not in str(denied.value) + repr(denied.value)


@pytest.mark.parametrize("scheme", ["", "https://"])
async def test_login_of_docker_is_used(
    guarded_registry: OciRegistry, tmp_path: Path, scheme: str
) -> None:
    auth = base64.b64encode(f"{OciRegistry.user}:{OciRegistry.password}".encode()).decode()
    config = {"auths": {f"{scheme}{guarded_registry.address}": {"auth": auth}}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    environment = {"DOCKER_CONFIG": str(tmp_path)}
    async with connect(guarded_registry, "docker", environment) as repository:
        await repository.push("v1", TYPE, ((LAYER, CONTENT),))
        assert await repository.pull_blob(LAYER) == CONTENT


async def test_token_server_is_asked_once_for_each_permission(
    oci_registry_part: Path, tmp_path: Path
) -> None:
    async with TokenServer(tmp_path) as tokens:
        with OciRegistry.start(oci_registry_part, tmp_path, auth=tokens.registry_auth) as registry:
            async with connect(registry, "team/a", LOGIN) as repository:
                await repository.push("v1", TYPE, ((LAYER, CONTENT),))
                await repository.pull_manifest("v1")
                assert await repository.pull_blob(LAYER) == CONTENT
                assert tokens.given == 2
            refresh = {"auths": {registry.address: {"identitytoken": tokens.refresh_token}}}
            async with connect(
                registry, "team/a", {"REGISTRY_AUTH": json.dumps(refresh)}
            ) as repository:
                assert (await repository.pull_manifest("v1")).manifest.layers == (LAYER,)
            async with connect(registry, "team/a") as repository:
                with pytest.raises(AccessDenied, match="none were found"):
                    await repository.pull_manifest("v1")


async def test_expired_token_is_replaced(oci_registry_part: Path, tmp_path: Path) -> None:
    async with TokenServer(tmp_path) as tokens:
        with OciRegistry.start(oci_registry_part, tmp_path, auth=tokens.registry_auth) as registry:
            async with connect(registry, "team/a", LOGIN) as repository:
                await repository.push("v1", TYPE, ())
                tokens.lifetime = timedelta(minutes=-5)
                with pytest.raises(AccessDenied):
                    await repository.pull_manifest("v1")
                tokens.lifetime = timedelta(minutes=5)
                await repository.pull_manifest("v1")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("oci://r.example.com/team/a", OciLocation("r.example.com", "team/a")),
        ("oci://r.example.com/a:v1", OciLocation("r.example.com", "a", "v1")),
        (
            f"oci://r.example.com/a@{LAYER.digest}",
            OciLocation("r.example.com", "a", LAYER.digest),
        ),
        ("oci://127.0.0.1:5000/a", OciLocation("127.0.0.1:5000", "a", plain_http=True)),
        ("oci://r:5000/a?plain-http=true", OciLocation("r:5000", "a", plain_http=True)),
        ("oci://localhost/a?plain-http=false", OciLocation("localhost", "a")),
    ],
)
def test_location_is_parsed(url: str, expected: OciLocation) -> None:
    assert parse_oci_location(url) == expected


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("oci://me:secret@r.example.com/a", "the URL contains credentials"),
        ("oci://r.example.com", "want lower-case words"),
        ("oci:///a", "use oci://registry"),
        ("oci://r.example.com/Team", "want lower-case words"),
        ("oci://r.example.com/../a", "want lower-case words"),
        ("oci://r.example.com/a@v1", "neither a tag nor a digest"),
        ("oci://r.example.com/a?insecure=1", "unknown option insecure=1; use plain-http=true"),
    ],
)
def test_invalid_location_is_rejected(url: str, message: str) -> None:
    with pytest.raises(StoreNotUsable, match=message) as rejected:
        parse_oci_location(url)
    assert "secret" not in str(rejected.value)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"REGISTRY_AUTH": "only-a-token"}, "write USER:PASSWORD"),
        ({"REGISTRY_AUTH": '{"auths": 1}'}, "it is no config.json of docker"),
        ({"REGISTRY_AUTH": '{"auths": {"r": {"auth": "?"}}}'}, "is not valid base64"),
    ],
)
def test_invalid_credentials_are_explained(environment: dict[str, str], message: str) -> None:
    with pytest.raises(StoreNotUsable, match=message):
        RegistryCredentials(environment).find("r")
