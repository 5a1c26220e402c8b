"""Documents: typed, written conditionally, and read again only if they changed."""

from pathlib import Path

import pytest

from kilonova.api.inference_engine import EngineSpec
from kilonova.fleet.documents import DESIRED, OBSERVED, Desired, DesiredDeployment, Observed
from kilonova.fleet.store import FleetStore, InvalidDocument, open_fleet_store
from kilonova.objectstore import PreconditionFailed, StoredObject
from kilonova.objectstore.interface import DEFAULT_MAX_BYTES

CHAT = DesiredDeployment(
    namespace="inference-engine",
    name="chat",
    global_deployment="chat",
    release="chat-1",
    template=EngineSpec(model="llama32-90b", build="b1"),
    replicas=2,
)


def desired(cluster: str, sequence: int = 1) -> Desired:
    return Desired(cluster=cluster, epoch=7, sequence=sequence, deployments=(CHAT,))


@pytest.fixture
def store(tmp_path: Path) -> FleetStore:
    return open_fleet_store(str(tmp_path))


async def test_document_is_created_once_read_and_replaced(store: FleetStore) -> None:
    assert await store.read(DESIRED, "a") is None
    created = await store.write(DESIRED, desired("a"), None)
    assert await store.read(DESIRED, "a") == created
    with pytest.raises(PreconditionFailed):
        await store.write(DESIRED, desired("a", 2), None)
    replaced = await store.write(DESIRED, desired("a", 2), created.version)
    assert replaced.version != created.version
    with pytest.raises(PreconditionFailed):
        await store.write(DESIRED, desired("a", 3), created.version)
    assert await store.read(DESIRED, "a") == replaced
    await store.delete(DESIRED, "a")
    assert await store.read(DESIRED, "a") is None


async def test_documents_of_a_kind_are_listed_by_key(store: FleetStore) -> None:
    for cluster in ("b", "a", "a-b"):
        await store.write(DESIRED, desired(cluster), None)
    await store.write(OBSERVED, Observed(cluster="c", sequence=1), None)
    found = await store.read_all(DESIRED)
    assert [each.document.cluster for each in found] == ["a-b", "a", "b"]
    assert found[0] == await store.read(DESIRED, "a-b")


async def test_unchanged_documents_are_not_read_again(
    store: FleetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    get = store.objects.get

    async def recording_get(key: str, *, max_bytes: int = DEFAULT_MAX_BYTES) -> StoredObject:
        read.append(key)
        return await get(key, max_bytes=max_bytes)

    monkeypatch.setattr(store.objects, "get", recording_get)
    a = await store.write(DESIRED, desired("a"), None)
    await store.write(DESIRED, desired("b"), None)
    assert len(await store.read_all(DESIRED)) == 2
    assert sorted(read) == ["desired/a.json", "desired/b.json"]
    await store.write(DESIRED, desired("a", 2), a.version)
    await store.delete(DESIRED, "b")
    (found,) = await store.read_all(DESIRED)
    assert (found.document.sequence, len(read)) == (2, 3)


async def test_invalid_document_is_reported_and_does_not_hide_others(store: FleetStore) -> None:
    await store.write(DESIRED, desired("a"), None)
    await store.objects.put("desired/b.json", b'{"cluster": 1}')
    with pytest.raises(InvalidDocument, match=r"desired/b.json: .*; delete it"):
        await store.read(DESIRED, "b")
    invalid: list[InvalidDocument] = []
    found = await store.read_all(DESIRED, invalid.append)
    assert [each.document.cluster for each in found] == ["a"]
    assert len(invalid) == 1
