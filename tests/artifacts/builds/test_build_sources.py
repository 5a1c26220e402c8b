"""Sources of builds: a directory, S3, an OCI registry. What passes on all is what they promise."""

import hashlib
import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from kilonova.artifacts.builds import (
    Build,
    BuildNotFound,
    BuildSource,
    BuildUnavailable,
    InvalidBuild,
    Partition,
    encode_build,
    open_build_source,
    save_build,
)
from kilonova.objectstore.oci.location import parse_oci_location
from kilonova.objectstore.oci.manifests import describe
from kilonova.objectstore.oci.repository import OciRepository
from tests.harness.oci_registry import OciRegistry
from tests.objectstore.conftest import Bucket

BUILD = Build(id="tiny-v1", model="tiny", agents=3, partitions=(Partition("a", 3),))
DAMAGED = Build(id="tiny-v1", model="tiny", agents=3, annotations={"note": "is damaged"})
OTHER = Build(id="tiny-v1", model="tiny", agents=4)


@dataclass(frozen=True)
class Place:
    """A source, and how its file of `DAMAGED` is overwritten."""

    source: BuildSource
    damage: Callable[[bytes], object]


@pytest.fixture(
    params=[
        "directory",
        "file",
        "moto",
        pytest.param("s3", marks=pytest.mark.real_parts),
        pytest.param("oci", marks=pytest.mark.real_parts),
    ]
)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Place]:
    """Each kind of source in turn."""
    damage: Callable[[bytes], object] = (tmp_path / "builds" / "tiny-v1.json").write_bytes
    match request.param:
        case "directory":
            url = str(tmp_path / "builds")
        case "file":
            url = (tmp_path / "builds").as_uri()
        case "oci":
            registry: OciRegistry = request.getfixturevalue("oci_registry")
            name = hashlib.sha256(request.node.name.encode()).hexdigest()[:12]
            url = f"oci://{registry.address}/builds/{name}"
            # A registry stores equal blobs once: of another build than those of other tests.
            digest = describe(encode_build(DAMAGED), "").digest
            damage = partial(overwrite_blob, registry, digest)
        case kind:
            bucket: Bucket = request.getfixturevalue(f"{kind}_bucket")
            url = f"s3://{bucket.name}/team/builds?endpoint={bucket.url}&region=us-east-1"
            damage = partial(put_object, bucket, "team/builds/tiny-v1.json")
    async with open_build_source(url) as source:
        yield Place(source, damage)


async def test_build_is_loaded_as_it_was_saved(place: Place) -> None:
    where = await place.source.save(BUILD)
    assert where.startswith(place.source.name)
    assert await place.source.load("tiny-v1") == BUILD
    assert await place.source.list() == ("tiny-v1",)


async def test_build_is_saved_again_unless_it_is_another_one(place: Place) -> None:
    await place.source.save(BUILD)
    await place.source.save(BUILD)
    with pytest.raises(InvalidBuild, match="there is another build of this id; give the build"):
        await place.source.save(OTHER)
    assert await place.source.load("tiny-v1") == BUILD


async def test_missing_build_is_named(place: Place) -> None:
    await place.source.save(BUILD)
    with pytest.raises(BuildNotFound, match=r"tiny-v2.*: there is no such build"):
        await place.source.load("tiny-v2")


@pytest.mark.parametrize("build_id", ["", "../secret", "a/b", "/etc/passwd", "a\0b", "a..b"])
async def test_id_does_not_lead_out_of_the_source(place: Place, build_id: str) -> None:
    with pytest.raises(InvalidBuild, match="is not the id of a build"):
        await place.source.load(build_id)


async def test_damaged_build_is_rejected(place: Place) -> None:
    await place.source.save(DAMAGED)
    place.damage(encode_build(OTHER))
    with pytest.raises(InvalidBuild, match=r"expected .*; (publish|push)"):
        await place.source.load("tiny-v1")


async def test_invalid_build_is_not_saved(place: Place) -> None:
    with pytest.raises(InvalidBuild, match="agents: 0 is out of range"):
        await place.source.save(Build(id="tiny-v1", model="tiny", agents=0))
    with pytest.raises(BuildNotFound):
        await place.source.load("tiny-v1")


async def test_build_without_checksum_is_rejected(tmp_path: Path, moto_bucket: Bucket) -> None:
    (tmp_path / "tiny-v1.json").write_bytes(encode_build(BUILD))
    put_object(moto_bucket, "tiny-v1.json", encode_build(BUILD))
    stored = f"s3://{moto_bucket.name}?endpoint={moto_bucket.url}&region=us-east-1"
    for url in (str(tmp_path), stored):
        async with open_build_source(url) as source:
            with pytest.raises(InvalidBuild, match="it has no checksum; write tiny-v1"):
                await source.load("tiny-v1")


async def test_checksum_is_that_of_sha256sum(tmp_path: Path) -> None:
    path = save_build(BUILD, tmp_path / "new")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    checksum = path.with_name("tiny-v1.json.sha256")
    assert checksum.read_text() == f"{digest}  tiny-v1.json\n"
    for content in (digest, digest.upper() + "\n", f"{digest} *builds/tiny-v1.json\n"):
        checksum.write_text(content)
        assert await open_build_source(str(path.parent)).load("tiny-v1") == BUILD
    checksum.write_text("none")
    with pytest.raises(InvalidBuild, match="it has no SHA-256"):
        await open_build_source(str(path.parent)).load("tiny-v1")


async def test_build_under_another_id_is_rejected(tmp_path: Path) -> None:
    save_build(BUILD, tmp_path)
    for suffix in (".json", ".json.sha256"):
        (tmp_path / f"tiny-v1{suffix}").rename(tmp_path / f"tiny-v2{suffix}")
    with pytest.raises(InvalidBuild, match="'tiny-v1' is not 'tiny-v2'"):
        await open_build_source(str(tmp_path)).load("tiny-v2")


async def test_missing_places_are_explained(moto_bucket: Bucket, tmp_path: Path) -> None:
    missing = f"s3://no-such-bucket?endpoint={moto_bucket.url}&region=us-east-1"
    async with open_build_source(missing) as source:
        with pytest.raises(BuildUnavailable, match="there is no such bucket; create it"):
            await source.load("tiny-v1")
    source = open_build_source(str(tmp_path / "none"))
    with pytest.raises(BuildNotFound, match="the directory does not exist"):
        await source.load("tiny-v1")
    with pytest.raises(BuildUnavailable, match="no such file or directory; check the directory"):
        await source.list()


async def test_source_that_does_not_answer_is_unavailable() -> None:
    async with open_build_source("oci://127.0.0.1:9/builds") as source:
        with pytest.raises(BuildUnavailable, match="whether the registry runs"):
            await source.load("tiny-v1")


async def test_build_is_loaded_by_its_digest(oci_registry: OciRegistry) -> None:
    async with open_build_source(f"oci://{oci_registry.address}/by-digest") as source:
        where = await source.save(BUILD)
        assert await source.load(where.partition("@")[2]) == BUILD


async def test_other_artifact_is_no_build(oci_registry: OciRegistry) -> None:
    url = f"oci://{oci_registry.address}/images"
    async with OciRepository(parse_oci_location(url)) as repository:
        await repository.push("tiny-v1", "application/vnd.other", ())
    async with open_build_source(url) as source:
        with pytest.raises(InvalidBuild, match="an artifact of type application/vnd"):
            await source.load("tiny-v1")


async def test_registry_with_users_wants_credentials(
    guarded_oci_registry: OciRegistry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.delenv("REGISTRY_AUTH", raising=False)
    async with open_build_source(f"oci://{guarded_oci_registry.address}/builds") as source:
        with pytest.raises(BuildUnavailable, match="requires credentials, and none were found"):
            await source.load("tiny-v1")
    logins = {"username": OciRegistry.user, "password": OciRegistry.password}
    config = {"auths": {guarded_oci_registry.address: logins}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    async with open_build_source(f"oci://{guarded_oci_registry.address}/builds") as source:
        await source.save(BUILD)
        assert await source.load("tiny-v1") == BUILD


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "it is empty; use a directory"),
        ("http://example.com/builds", "unknown scheme 'http'; use a directory, file:///DIR"),
        ("file://host/builds", "names a host, 'host'; use file:///host/builds"),
        ("s3:///builds", "no bucket is given"),
        ("s3://bucket?zone=a", "unknown option 'zone'; use endpoint or region"),
        ("oci://registry", "want lower-case words"),
        ("oci://registry/builds:tiny-v1", "the location names one artifact; use oci://registry"),
    ],
)
def test_invalid_url_is_rejected(url: str, message: str) -> None:
    with pytest.raises(BuildUnavailable, match=message):
        open_build_source(url)


def overwrite_blob(registry: OciRegistry, digest: str, content: bytes) -> None:
    """Change a blob in the folder of the registry."""
    registry.find_blob(digest).write_bytes(content)


def put_object(bucket: Bucket, key: str, content: bytes) -> None:
    """Write an object as other tools do."""
    import boto3

    client = boto3.client("s3", endpoint_url=bucket.url, region_name="us-east-1")
    client.put_object(Bucket=bucket.name, Key=key, Body=content)
    client.close()
