"""A release names a tokenizer of the store, or is rejected with the reason."""

from pathlib import Path
from typing import Any

import pytest

from kilonova.api.json import JsonObject
from kilonova.artifacts.tokenizers import open_tokenizer_store, read_source
from kilonova.instances.admission import build_handlers
from kilonova.instances.admission.webhooks import RELEASE_PATH
from kilonova.instances.artifact_sources import ArtifactSources
from kilonova.kube.admission import Allowed, Denied
from kilonova.kube.admission.review import AdmissionRequest, GroupVersionKind, GroupVersionResource
from tests.artifacts.tokenizers.sample_tokenizers import KEY, NAME, write_model

KIND = GroupVersionKind("inference-engine.groq.io", "v1", "Release")
RESOURCE = GroupVersionResource("inference-engine.groq.io", "v1", "releases")


@pytest.fixture
async def store(tmp_path: Path) -> Path:
    """A store with one tokenizer."""
    folder = tmp_path / "store"
    source = await read_source(str(write_model(tmp_path / "model")))
    await open_tokenizer_store(str(folder)).add(source, name=NAME, texts=("Hello!",))
    return folder


def release(tokenizer: str) -> JsonObject:
    spec = {"model": "tiny", "targetAgents": 3, "image": "engine", "tokenizer": tokenizer}
    return {"metadata": {"name": "v1"}, "spec": spec}


async def admit(
    obj: JsonObject, store: Path | str, old: JsonObject | None = None
) -> Allowed | Denied:
    handler = build_handlers(sources=ArtifactSources(tokenizers=str(store)))[RELEASE_PATH]
    operation: Any = "CREATE" if old is None else "UPDATE"
    request = AdmissionRequest(
        uid="1", kind=KIND, resource=RESOURCE, operation=operation, object=obj, old_object=old
    )
    response = await handler(request)
    assert isinstance(response, Allowed | Denied)
    return response


@pytest.mark.parametrize("name", [NAME, KEY])
async def test_tokenizer_of_the_store_is_accepted_by_both_names(store: Path, name: str) -> None:
    assert await admit(release(name), store) == Allowed()


async def test_unknown_tokenizer_is_rejected(store: Path) -> None:
    response = await admit(release("acme/other"), store)
    assert isinstance(response, Denied)
    assert 'spec.tokenizer: Invalid value: "acme/other"' in response.message
    assert "acme_other: there is no such tokenizer; add it with" in response.message


async def test_broken_tokenizer_is_rejected_with_the_reason(store: Path) -> None:
    (store / KEY / "tokenizer.json").write_text("{}")
    response = await admit(release(NAME), store)
    assert isinstance(response, Denied)
    assert "tokenizer.json: the file was changed: its SHA-256 is" in response.message


async def test_store_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    response = await admit(release(NAME), "http://example.com")
    assert isinstance(response, Denied)
    assert "http://example.com: unknown scheme 'http'" in response.message


async def test_release_that_exists_may_change_when_its_tokenizer_is_gone(tmp_path: Path) -> None:
    old = release(NAME)
    changed = {**old, "metadata": {"name": "v1", "labels": {"a": "b"}}}
    assert await admit(changed, tmp_path / "none", old) == Allowed()


async def test_without_a_store_there_is_a_warning() -> None:
    response = await admit(release(NAME), "")
    assert response == Allowed(
        ("spec.tokenizer is not verified: KILONOVA_TOKENIZERS names no store",)
    )


def test_sources_come_from_flags_before_the_environment() -> None:
    environment = {"KILONOVA_BUILDS": "/builds", "KILONOVA_TOKENIZERS": "/tokenizers"}
    sources = ArtifactSources.from_environment(builds="s3://b", environment=environment)
    assert sources == ArtifactSources("s3://b", "/tokenizers")
