"""Manifests, and the paths of files."""

from typing import Any

import pytest

from kilonova.serving.repositories.errors import RepositoryError
from kilonova.serving.repositories.layouts import arrange_paths, find_models
from kilonova.serving.repositories.manifest import check_path, encode_manifest, parse_manifest

DIGEST = "a" * 64


@pytest.mark.parametrize("line", [f"{DIGEST}  a/b", f"{DIGEST} *a/b", f"{DIGEST}  ./a/b\r"])
def test_lines_are_those_of_sha256sum(line: str) -> None:
    assert parse_manifest(f"{line}\n".encode(), "here") == {"a/b": DIGEST}


def test_manifest_is_read_as_it_was_written() -> None:
    digests = {"b c/model": "1" * 64, "a": "2" * 64}
    content = encode_manifest(digests)
    assert parse_manifest(content, "here") == digests
    assert content.startswith(b"2" * 64)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"no checksum\n", "line 1 is not a SHA-256 and a path: 'no checksum'"),
        (f"{DIGEST}  a\n{'b' * 64}  a\n".encode(), "line 2 has another SHA-256 for a"),
        (f"{DIGEST}  ../a\n".encode(), "line 1: the path '../a' is refused"),
        (f"{DIGEST}  /etc/passwd\n".encode(), "the path '/etc/passwd' is refused"),
        (b"\xff\xfe", "it is not UTF-8"),
    ],
)
def test_damaged_manifest_is_refused(content: bytes, problem: str) -> None:
    with pytest.raises(RepositoryError, match=problem):
        parse_manifest(content, "here")


@pytest.mark.parametrize(
    "path", ["", "/a", "a/", "a//b", ".", "..", "a/../b", "a\\..\\b", "a\nb", "x" * 5000]
)
def test_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(RepositoryError, match="is refused"):
        check_path(path, "here")


@pytest.mark.parametrize(
    ("paths", "layout", "models"),
    [
        (["cat/1/model.onnx", "dog/config.pbtxt", "README"], "Triton", ("cat", "dog")),
        (["config.json", "vae/config.json"], "HuggingFace", ("",)),
        (["a/x/config.json", "a/x/vae/config.json", "b/config.json"], "HuggingFace", ("a/x", "b")),
    ],
)
def test_models_are_found(paths: list[str], layout: Any, models: tuple[str, ...]) -> None:
    assert find_models(paths, layout, "here") == models


@pytest.mark.parametrize(
    ("layout", "problem"),
    [
        ("Triton", "it needs a folder for each model, such as MODEL/1/model.onnx"),
        ("HuggingFace", "it needs a folder with config.json for each model"),
    ],
)
def test_repository_without_models_is_refused(layout: Any, problem: str) -> None:
    with pytest.raises(RepositoryError, match=problem):
        find_models(["README"], layout, "here")


def test_cache_with_two_snapshots_of_a_model_is_refused() -> None:
    paths = [f"models--a--b/snapshots/{commit}/config.json" for commit in ("1", "2")]
    with pytest.raises(RepositoryError, match="a/b has several snapshots: 1, 2"):
        arrange_paths(paths, "HuggingFace", "here")
