"""Stores of tokenizers: a directory, S3, a registry. What passes on all is what they promise."""

import hashlib
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from kilonova.artifacts.tokenizers import (
    InvalidTokenizer,
    TokenizerNotFound,
    TokenizerStore,
    TokenizerUnavailable,
    check_tokenizer,
    open_tokenizer_store,
    read_source,
    sync_tokenizer,
)
from kilonova.artifacts.tokenizers import cases as test_cases
from tests.artifacts.tokenizers.sample_tokenizers import (
    KEY,
    NAME,
    train_bpe,
    train_word_pieces,
    write_model,
)
from tests.harness.oci_registry import OciRegistry
from tests.objectstore.conftest import Bucket


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder in Hugging Face's layout."""
    return write_model(tmp_path / "model")


@pytest.fixture
async def directory(tmp_path: Path) -> TokenizerStore:
    """A store that runtimes read."""
    return open_tokenizer_store(str(tmp_path / "store"))


@pytest.fixture(
    params=[
        "directory",
        "moto",
        pytest.param("s3", marks=pytest.mark.real_parts),
        pytest.param("oci", marks=pytest.mark.real_parts),
    ]
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of each kind of store in turn."""
    match request.param:
        case "directory":
            return str(tmp_path / "store")
        case "oci":
            registry: OciRegistry = request.getfixturevalue("oci_registry")
            name = hashlib.sha256(request.node.name.encode()).hexdigest()[:12]
            return f"oci://{registry.address}/tokenizers/{name}"
        case kind:
            bucket: Bucket = request.getfixturevalue(f"{kind}_bucket")
            return f"s3://{bucket.name}/tokenizers?endpoint={bucket.url}&region=us-east-1"


@pytest.fixture
async def store(url: str) -> AsyncGenerator[TokenizerStore]:
    """Each kind of store in turn."""
    async with open_tokenizer_store(url) as store:
        yield store


async def test_added_tokenizer_is_found_by_both_names(store: TokenizerStore, model: Path) -> None:
    info = await store.add(await read_source(str(model)), name=NAME, texts=("Hello!",))
    assert [each.path for each in info.files] == ["tokenizer.json", "tokenizer_config.json"]
    for name in (NAME, KEY, NAME.lower()):
        found = await store.read(name)
        assert found.info == info
        assert found.files["tokenizer.json"] == train_bpe()
        assert await store.verify(name) == 1
        await check_tokenizer(store, name)
    [listed] = await store.list()
    assert (listed.key, listed.name, listed.problem) == (KEY, NAME, "")


async def test_unknown_tokenizer_is_named(store: TokenizerStore, model: Path) -> None:
    await store.add(await read_source(str(model)), name=NAME, texts=("Hello!",))
    with pytest.raises(TokenizerNotFound, match="acme_other: there is no such tokenizer; add it"):
        await check_tokenizer(store, "acme/other")


async def test_tokenizer_is_copied_to_another_store(
    store: TokenizerStore, directory: TokenizerStore, model: Path, tmp_path: Path
) -> None:
    origin = open_tokenizer_store(str(tmp_path / "origin"))
    await origin.add(await read_source(str(model)), name=NAME)
    assert await sync_tokenizer(origin, store, NAME) == "Added"
    assert await sync_tokenizer(origin, store, NAME) == "Unchanged"
    back = open_tokenizer_store(str(tmp_path / "back"))
    assert await sync_tokenizer(store, back, KEY) == "Added"
    assert await back.verify(NAME) == 5
    write_model(model, train_bpe("other words"))
    (model / "tokenizer_config.json").unlink()
    await origin.add(await read_source(str(model)), name=NAME, replace=True)
    assert await sync_tokenizer(origin, store, NAME) == "Updated"
    assert (await store.read(NAME)).files == (await origin.read(NAME)).files


async def test_add_leaves_cache_info_and_test_cases_behind(
    directory: TokenizerStore, model: Path, tmp_path: Path
) -> None:
    await directory.add(await read_source(str(model)), name=NAME)
    folder = tmp_path / "store" / KEY
    info = json.loads((folder / "tokenizer_cache_info.json").read_text())
    assert (info["name"], info["source"]) == (NAME, str(model))
    assert info["revision"].startswith("sha256:")
    assert info["files"][0] == {
        "path": "tokenizer.json",
        "size": len(train_bpe()),
        "sha256": hashlib.sha256(train_bpe()).hexdigest(),
    }
    cases = json.loads((folder / "tokenizer_test_cases.json").read_text())
    assert len(cases) == 5
    assert all(case["decoded"] == case["text"] for case in cases)
    assert not (folder / "model.safetensors").exists()


async def test_folder_of_hugging_face_cache_has_name_and_revision(
    directory: TokenizerStore, tmp_path: Path
) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    folder = write_model(tmp_path / "hub" / "models--Acme--Tiny-BPE" / "snapshots" / commit)
    info = await directory.add(await read_source(str(folder)))
    assert (info.name, info.revision) == (NAME, commit)


async def test_one_file_is_enough(directory: TokenizerStore, model: Path) -> None:
    source = await read_source(str(model / "tokenizer.json"))
    await directory.add(source, name=NAME)
    assert [each.path for each in (await directory.read(NAME)).info.files] == ["tokenizer.json"]


async def test_tokenizer_is_added_from_another_store(
    url: str, store: TokenizerStore, model: Path, tmp_path: Path
) -> None:
    await store.add(await read_source(str(model)), name=NAME)
    place, mark, options = url.partition("?")
    separator = ":" if place.startswith("oci") else "/"
    directory = open_tokenizer_store(str(tmp_path / "other"))
    info = await directory.add(await read_source(f"{place}{separator}{KEY}{mark}{options}"))
    assert info.name == NAME
    assert await directory.verify(NAME) == 5


async def test_adding_again_changes_nothing_unless_it_is_another_one(
    directory: TokenizerStore, model: Path
) -> None:
    await directory.add(await read_source(str(model)), name=NAME)
    await directory.add(await read_source(str(model)), name=NAME)
    write_model(model, train_bpe("other words"))
    with pytest.raises(InvalidTokenizer, match=f"another tokenizer {NAME}.*; replace it with"):
        await directory.add(await read_source(str(model)), name=NAME)
    await directory.add(await read_source(str(model)), name=NAME, replace=True)
    assert (await directory.read(NAME)).files["tokenizer.json"] == train_bpe("other words")


async def test_two_names_of_one_folder_are_told_apart(
    directory: TokenizerStore, model: Path
) -> None:
    await directory.add(await read_source(str(model)), name="a_b/c")
    with pytest.raises(TokenizerNotFound, match="it is a_b/c, not a/b_c; rename one of them"):
        await check_tokenizer(directory, "a/b_c")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "tokenizer.json").write_text("{}"), "tokenizer.json: the file was changed"),
        (lambda f: (f / "tokenizer_config.json").unlink(), "config.json: the file is missing; add"),
        (lambda f: (f / "chat_template.jinja").write_text("x"), "is not listed in .*; remove it"),
        (lambda f: (f / "tokenizer_cache_info.json").unlink(), "there is no tokenizer_cache_info"),
        (lambda f: (f / "tokenizer_cache_info.json").write_text("{"), "it is not JSON"),
        (
            lambda f: (f / "tokenizer_cache_info.json").write_text('{"name": "a/b"}'),
            "tokenizer_cache_info.json: source: is missing; it is required",
        ),
        (lambda f: rewrite(f, "files", []), "lists no tokenizer.json"),
        (lambda f: rewrite(f, "name", "acme/other"), "it is acme/other; move it to acme/other"),
        (lambda f: rewrite(f, "name", "other"), "'other' is not ORG/MODEL"),
        (
            lambda f: rewrite(f, "files", [{"path": "../x", "size": 1, "sha256": "0" * 64}]),
            "'../x' is not the name of a file",
        ),
        (lambda f: (f / "tokenizer_test_cases.json").unlink(), "test_cases.json: the file is miss"),
        (lambda f: (f / "tokenizer_test_cases.json").write_text("[]"), "it has no test case"),
        (
            lambda f: (f / "tokenizer_test_cases.json").write_text(
                '[{"text": "hello", "ids": [1, 2], "decoded": "hello"}]'
            ),
            r"'hello' has the ids \(\d+.*\), not \(1, 2\); use the version of the library",
        ),
    ],
)
async def test_broken_tokenizer_is_rejected_with_the_reason(
    directory: TokenizerStore, model: Path, tmp_path: Path, damage: object, message: str
) -> None:
    assert callable(damage)
    await directory.add(await read_source(str(model)), name=NAME)
    damage(tmp_path / "store" / KEY)
    with pytest.raises(InvalidTokenizer, match=message):
        await check_tokenizer(directory, NAME)


async def test_broken_tokenizer_does_not_hide_the_others(
    directory: TokenizerStore, model: Path, tmp_path: Path
) -> None:
    for name in ("acme/good", "acme/bad"):
        await directory.add(await read_source(str(model)), name=name)
    (tmp_path / "store" / "acme_bad" / "tokenizer.json").write_text("{}")
    bad, good = await directory.list()
    assert "the file was changed" in bad.problem
    assert (good.name, good.problem) == ("acme/good", "")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "the library does not load it: EOF"),
        (b'{"version": "1.0", "model": {"type": "New"}}', "the library does not load it"),
        (b"\xff\xfe", "it is not text"),
    ],
)
async def test_tokenizer_that_does_not_load_is_not_added(
    directory: TokenizerStore, tmp_path: Path, content: bytes, message: str
) -> None:
    source = await read_source(str(write_model(tmp_path / "broken", content)))
    with pytest.raises(InvalidTokenizer, match=message):
        await directory.add(source, name=NAME)
    with pytest.raises(TokenizerNotFound):
        await directory.read(NAME)


async def test_tokenizer_that_loses_text_is_not_added(
    directory: TokenizerStore, tmp_path: Path
) -> None:
    source = await read_source(str(write_model(tmp_path / "lossy", train_word_pieces())))
    with pytest.raises(InvalidTokenizer, match="it loses text: 'xyz' becomes"):
        await directory.add(source, name=NAME, texts=("xyz",))
    # It changes the case, which is no loss; of later texts anything is recorded.
    await directory.add(source, name=NAME, texts=("Hello, World!", "xyz"))
    assert await directory.verify(NAME) == 2


async def test_missing_library_is_explained(
    directory: TokenizerStore, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await directory.add(await read_source(str(model)), name=NAME)

    def find_nothing(name: str) -> None:
        assert name == "tokenizers"

    monkeypatch.setattr(test_cases, "find_spec", find_nothing)
    with pytest.raises(TokenizerUnavailable, match=r"pip install 'kilonova\[tokenizers\]'"):
        await directory.verify(NAME)
    # Admission verifies the checksums nevertheless.
    await check_tokenizer(directory, NAME)


async def test_sources_without_tokenizer_are_explained(tmp_path: Path) -> None:
    with pytest.raises(TokenizerNotFound, match="no such file or directory; correct the path"):
        await read_source(str(tmp_path / "none"))
    (tmp_path / "vocab.json").write_text("{}")
    with pytest.raises(InvalidTokenizer, match=r"there is no tokenizer.json; .*are: vocab.json"):
        await read_source(str(tmp_path))


async def test_name_must_be_known(directory: TokenizerStore, model: Path) -> None:
    source = await read_source(str(model))
    with pytest.raises(InvalidTokenizer, match="its name is not known; give it with --name"):
        await directory.add(source)
    with pytest.raises(InvalidTokenizer, match="'acme_tiny' is not a canonical name"):
        await directory.add(source, name="acme_tiny")


async def test_damaged_tokenizer_is_not_copied(
    directory: TokenizerStore, model: Path, tmp_path: Path
) -> None:
    await directory.add(await read_source(str(model)), name=NAME)
    (tmp_path / "store" / KEY / "tokenizer.json").write_text("{}")
    target = open_tokenizer_store(str(tmp_path / "target"))
    with pytest.raises(InvalidTokenizer, match="the file was changed"):
        await sync_tokenizer(directory, target, KEY)


def rewrite(folder: Path, field: str, value: object) -> None:
    """Change a field of the cache info."""
    path = folder / "tokenizer_cache_info.json"
    info = json.loads(path.read_text())
    path.write_text(json.dumps({**info, field: value}))
