"""`kilonova models`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Kilonova


@pytest.fixture
def kilonova(tmp_path: Path) -> Iterator[Kilonova]:
    """The command, with a home directory of its own."""
    command = Kilonova(tmp_path)
    yield command
    command.stop_all()


def test_models_are_pushed_pulled_listed_and_verified(
    kilonova: Kilonova, repository: Path, tmp_path: Path
) -> None:
    published, target = tmp_path / "published", tmp_path / "target"
    pushed = kilonova("models", "push", repository, published)
    assert pushed.code == 0, pushed.err
    digest = pushed.out.strip()
    assert digest.startswith("sha256:")
    pulled = kilonova("models", "pull", published, target, "--checksum", digest)
    assert pulled.code == 0, pulled.err
    assert pulled.out == f"2 models, 5 files (0 kept), 2.9 MiB, manifest {digest}\n"
    again = kilonova("models", "pull", published, target, "--checksum", digest)
    assert "5 files (5 kept)" in again.out
    verified = kilonova("models", "verify", target, "--checksum", digest)
    assert (verified.code, verified.out) == (0, f"4 files ok, manifest {digest}\n")
    listed = kilonova("models", "list", published, "-o", "json")
    assert json.loads(listed.out) == [
        {"name": "cat", "files": 2, "size": 3072012},
        {"name": "dog", "files": 1, "size": 13},
    ]
    assert "cat     2       2.9 MiB" in kilonova("models", "list", published).out


def test_every_damaged_file_is_named(kilonova: Kilonova, repository: Path, tmp_path: Path) -> None:
    assert kilonova("models", "manifest", repository).code == 0
    (repository / "dog/1/model.onnx").write_bytes(b"damaged")
    (repository / "README.md").unlink()
    done = kilonova("models", "verify", repository)
    assert done.code == 1
    assert f"kilonova: {repository}/README.md: the file is missing\n" in done.err
    assert f"kilonova: {repository}/dog/1/model.onnx: its SHA-256 is " in done.err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("pull", "none", "target"), "kilonova: none: there is no such file or directory; correct"),
        (("pull", "s3://", "target"), "kilonova: s3://: no bucket is given; set bucket"),
        (("pull", ".", "target", "--max-size", "much"), "use a quantity such as 40Gi"),
        (("list", ".", "--layout", "HuggingFace"), "it has no model of the layout HuggingFace"),
        (("verify", "."), "it has neither SHA256SUMS nor .kilonova-models.json; write one with"),
        (
            ("push", ".", "ftp://host"),
            "kilonova: ftp://host: unknown scheme 'ftp'; use a directory",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    kilonova: Kilonova, repository: Path, tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    done = kilonova("models", *words)
    assert done.code != 0
    assert problem in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "target").exists()


def test_too_large_repository_is_refused(
    kilonova: Kilonova, repository: Path, tmp_path: Path
) -> None:
    done = kilonova("models", "pull", repository, tmp_path / "target", "--max-size", "1Mi")
    assert done.code == 1
    assert "more than the limit of 1048576; raise objectStore.size, or --max-size" in done.err
    assert not (tmp_path / "target").exists()
