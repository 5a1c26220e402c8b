"""A repository that is pushed to each kind of place, and pulled from there."""

import time
from pathlib import Path
from typing import Any

import pytest

from kilonova.serving.repositories.download import Pulled, PullOptions, pull_repository
from kilonova.serving.repositories.errors import FileDamaged, NoSpace, RepositoryError
from kilonova.serving.repositories.sources import open_source
from kilonova.serving.repositories.upload import push_repository, write_manifest
from kilonova.serving.repositories.verification import verify_folder
from tests.harness.oci_registry import OciRegistry
from tests.objectstore.conftest import Bucket
from tests.serving.repositories.conftest import read_files, write_files


async def pull(url: str, target: Path, **options: Any) -> Pulled:
    async with open_source(url) as source:
        return await pull_repository(source, target, PullOptions(**options))


async def test_what_was_pushed_is_pulled(place: str, repository: Path, tmp_path: Path) -> None:
    digest = await push_repository(repository, place)
    target = tmp_path / "target"
    done = await pull(place, target, checksum=digest)
    found = read_files(target)
    found.pop("SHA256SUMS", None)
    assert found == read_files(repository)
    assert done.contents.models == ("cat", "dog")
    assert done.contents.digest == digest
    assert done.progress.kept_files == 0
    verified = await verify_folder(target)
    assert (verified.problems, verified.digest) == ((), digest)


async def test_second_pull_fetches_only_what_changed(
    place: str, repository: Path, tmp_path: Path
) -> None:
    await push_repository(repository, place)
    target = tmp_path / "target"
    await pull(place, target)
    untouched = (target / "dog").stat().st_ino
    former = (target / "cat/1/model.onnx").stat().st_ino
    write_files(repository, {"cat/config.pbtxt": b'name: "cat"\nmax_batch_size: 8\n'})
    (repository / "README.md").unlink()
    await push_repository(repository, place)
    done = await pull(place, target)
    assert done.progress.kept_files == 2, "the weights of both models"
    found = read_files(target)
    found.pop("SHA256SUMS", None)
    assert found == read_files(repository)
    assert (target / "dog").stat().st_ino == untouched
    assert (target / "cat/1/model.onnx").stat().st_ino == former
    assert sorted(each.name for each in target.iterdir() if each.is_dir()) == ["cat", "dog"]


async def test_thousand_models_are_pulled_in_seconds(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    write_files(source, {f"m{each}/1/model.onnx": b"" for each in range(1000)})
    start = time.process_time()
    await pull(str(source), target)
    done = await pull(str(source), target)
    assert (len(done.contents.models), done.progress.kept_files) == (1000, 1000)
    # It was a minute when each file was looked for among all models.
    assert time.process_time() - start < 15


async def test_model_that_is_no_longer_in_the_repository_is_removed(
    repository: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    write_files(target, {"own/1/model.onnx": b"not ours"})
    await pull(str(repository), target)
    for path in sorted((repository / "dog").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (repository / "dog").rmdir()
    await pull(str(repository), target)
    assert sorted(each.name for each in target.iterdir() if each.is_dir()) == ["cat", "own"]


async def test_wrong_checksum_is_named_and_nothing_is_written(
    place: str, repository: Path, tmp_path: Path
) -> None:
    digest = await push_repository(repository, place)
    wrong = "sha256:" + "0" * 64
    with pytest.raises(FileDamaged, match=f"is {digest}, expected {wrong}"):
        await pull(place, tmp_path / "target", checksum=wrong)
    assert not (tmp_path / "target").exists()


async def test_checksum_needs_a_manifest(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match="it has no SHA256SUMS for the checksum"):
        await pull(str(repository), tmp_path / "target", checksum="sha256:" + "0" * 64)


async def test_file_that_was_exchanged_in_a_store_is_refused(
    moto_bucket: Bucket, repository: Path, tmp_path: Path
) -> None:
    import boto3

    url = f"s3://{moto_bucket.name}/models?endpoint={moto_bucket.url}&region=us-east-1"
    digest = await push_repository(repository, url)
    client = boto3.client("s3", endpoint_url=moto_bucket.url, region_name="us-east-1")
    # The checksum of the store is that of the new content: only the manifest knows better.
    client.put_object(Bucket=moto_bucket.name, Key="models/dog/1/model.onnx", Body=b"another model")
    with pytest.raises(FileDamaged) as failed:
        async with open_source(url) as source:
            await pull_repository(
                source, tmp_path / "target", PullOptions(checksum=digest), sleep=no_sleep
            )
    assert failed.value.where == f"s3://{moto_bucket.name}/models/dog/1/model.onnx"
    assert "its SHA-256 is " in failed.value.problem
    assert ", expected " in failed.value.problem
    assert read_files(tmp_path / "target") == {}


async def no_sleep(seconds: float) -> None:
    """Retry at once."""


async def test_file_beside_the_manifest_is_left_out(
    moto_bucket: Bucket, repository: Path, tmp_path: Path
) -> None:
    import boto3

    url = f"s3://{moto_bucket.name}/models?endpoint={moto_bucket.url}&region=us-east-1"
    await push_repository(repository, url)
    client = boto3.client("s3", endpoint_url=moto_bucket.url, region_name="us-east-1")
    client.put_object(Bucket=moto_bucket.name, Key="models/dog/2/model.onnx", Body=b"unknown")
    done = await pull(url, tmp_path / "target")
    assert done.contents.left_out == 1
    assert not (tmp_path / "target/dog/2").exists()


async def test_bucket_without_manifest_is_verified_by_the_store_alone(
    moto_bucket: Bucket, tmp_path: Path
) -> None:
    import boto3

    client = boto3.client("s3", endpoint_url=moto_bucket.url, region_name="us-east-1")
    # The second is how consoles show a folder.
    for key, body in (("models/cat/1/model.onnx", b"cat"), ("models/cat/", b"")):
        client.put_object(Bucket=moto_bucket.name, Key=key, Body=body)
    url = f"s3://{moto_bucket.name}/models?endpoint={moto_bucket.url}&region=us-east-1"
    done = await pull(url, tmp_path / "target")
    assert done.contents.digest == ""
    assert read_files(tmp_path / "target") == {"cat/1/model.onnx": b"cat"}


async def test_key_that_leads_out_of_the_directory_is_refused(
    moto_bucket: Bucket, tmp_path: Path
) -> None:
    import boto3

    client = boto3.client("s3", endpoint_url=moto_bucket.url, region_name="us-east-1")
    client.put_object(Bucket=moto_bucket.name, Key="models/cat/../../evil", Body=b"evil")
    url = f"s3://{moto_bucket.name}/models?endpoint={moto_bucket.url}&region=us-east-1"
    with pytest.raises(RepositoryError, match=r"'cat/\.\./\.\./evil' is refused"):
        await pull(url, tmp_path / "target")
    assert not (tmp_path / "evil").exists()


@pytest.mark.real_parts
async def test_artifact_is_pinned_by_its_digest(
    oci_registry: OciRegistry, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "none"))
    name = f"oci://{oci_registry.address}/models/pinned"
    first = await push_repository(repository, f"{name}:v1")
    write_files(repository, {"dog/1/model.onnx": b"another one"})
    await push_repository(repository, f"{name}:v1")
    await pull(f"{name}@{first}", tmp_path / "target")
    assert (tmp_path / "target/dog/1/model.onnx").read_bytes() == b"a small model"


@pytest.mark.real_parts
async def test_image_is_no_repository(
    oci_registry: OciRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kilonova.objectstore.oci.location import parse_oci_location
    from kilonova.objectstore.oci.manifests import describe
    from kilonova.objectstore.oci.repository import OciRepository

    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "none"))
    url = f"oci://{oci_registry.address}/models/image:v1"
    layer = describe(b"archive", "application/vnd.oci.image.layer.v1.tar+gzip", {})
    async with OciRepository(parse_oci_location(url)) as registry:
        await registry.push(
            "v1", "application/vnd.oci.image.config.v1+json", ((layer, b"archive"),)
        )
    with pytest.raises(RepositoryError, match="is not a file; push its files with"):
        await pull(url, tmp_path / "target")


async def test_repository_that_is_too_large_is_refused_before_anything_is_fetched(
    repository: Path, tmp_path: Path
) -> None:
    with pytest.raises(NoSpace, match=r"more than the limit of 1000; raise objectStore\.size"):
        await pull(str(repository), tmp_path / "target", max_bytes=1000)
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        (".", "it is the repository itself"),
        ("link", "it is the repository itself"),
        ("cat/copy", "it is inside the repository"),
        ("..", "is inside it"),
    ],
)
async def test_directory_is_not_pulled_into_itself(
    repository: Path, tmp_path: Path, target: str, problem: str
) -> None:
    link = tmp_path / "link"
    link.symlink_to(repository)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RepositoryError, match=problem):
        await pull(str(repository), link if target == "link" else repository / target)
    assert sorted(tmp_path.rglob("*")) == before


async def test_missing_place_is_explained(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match="there is no such file or directory"):
        await pull(str(tmp_path / "none"), tmp_path / "target")


async def test_manifest_is_that_of_sha256sum(repository: Path) -> None:
    import subprocess

    await write_manifest(repository)
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=repository, check=True)


@pytest.mark.parametrize(
    ("files", "models"),
    [
        ({"config.json": b"{}", "model.safetensors": b"w"}, ("",)),
        (
            {"acme/tiny/config.json": b"{}", "acme/large/config.json": b"{}", "NOTES": b"n"},
            ("acme/large", "acme/tiny"),
        ),
    ],
)
async def test_hugging_face_snapshots_are_pulled(
    place: str, files: dict[str, bytes], models: tuple[str, ...], tmp_path: Path
) -> None:
    write_files(tmp_path / "snapshots", files)
    await push_repository(tmp_path / "snapshots", place)
    done = await pull(place, tmp_path / "target", layout="HuggingFace")
    assert done.contents.models == models
    found = read_files(tmp_path / "target")
    found.pop("SHA256SUMS", None)
    assert found == files


async def test_cache_of_hugging_face_becomes_folders_of_models(tmp_path: Path) -> None:
    cache = tmp_path / "hub"
    write_files(
        cache,
        {
            "models--acme--tiny/blobs/abc": b"{}",
            "models--acme--tiny/refs/main": b"c0ffee",
        },
    )
    snapshot = cache / "models--acme--tiny/snapshots/c0ffee"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").symlink_to("../../blobs/abc")
    await pull(str(cache), tmp_path / "target", layout="HuggingFace")
    assert read_files(tmp_path / "target") == {"acme/tiny/config.json": b"{}"}
    assert not (tmp_path / "target/acme/tiny/config.json").is_symlink()
