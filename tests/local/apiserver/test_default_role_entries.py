"""The default roles of a new store, as if they had been created by requests."""

import re
from pathlib import Path

import pytest

from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.apiserver import default_role_entries
from kilonova.local.apiserver.auth.rbac.default_roles import default_objects
from kilonova.local.apiserver.bootstrap import reconcile_default_roles
from kilonova.local.apiserver.registry.encoding import field_values
from kilonova.local.apiserver.storage import Entry
from kilonova.local.cluster import EmbeddedCluster
from tests.local.embedded_cluster import run_cluster

pytestmark = pytest.mark.looptime

GROUP = "rbac.authorization.k8s.io"
UID = re.compile(rb'"uid":"([0-9a-f-]{36})"')
VERSION = re.compile(rb'"resourceVersion":"(\d+)"')


def default_entries(cluster: EmbeddedCluster) -> list[Entry]:
    """The stored default objects, in the order of their creation."""
    found: list[Entry] = []
    for plural, objects in default_objects().items():
        keys = {
            f"{metadata.get('namespace', '')}/{metadata['name']}".lstrip("/")
            for metadata in (each["metadata"] for each in objects)
        }
        entries = cluster.store.collection(f"{plural}.{GROUP}").range_entries("")
        found += sorted((e for e in entries if e.key in keys), key=lambda each: each.rv)
    return found


def comparable(entry: Entry) -> tuple[object, ...]:
    """The entry without uid and resourceVersion."""
    body = VERSION.sub(b"", UID.sub(b"", entry.body))
    return entry.key, body, dict(entry.labels), entry.fields


async def delete_default_objects(cluster: EmbeddedCluster) -> None:
    client = cluster.client("test")
    for plural, objects in default_objects().items():
        namespaced = plural in ("roles", "rolebindings")
        resource = unstructured_resource(GROUP, "v1", plural, "", namespaced)
        for obj in objects:
            metadata = obj["metadata"]
            await client.delete(resource, metadata["name"], metadata.get("namespace"))


async def test_new_store_has_what_requests_would_create() -> None:
    async with run_cluster(controllers="") as cluster:
        stored = default_entries(cluster)
        await delete_default_objects(cluster)
        assert not default_entries(cluster)
        await reconcile_default_roles(cluster.client("system:apiserver"))
        created = default_entries(cluster)
    assert len(stored) == sum(map(len, default_objects().values()))
    assert [comparable(each) for each in stored] == [comparable(each) for each in created]


async def test_uid_and_version_of_an_entry_are_its_own() -> None:
    async with run_cluster(controllers="") as first, run_cluster(controllers="") as second:
        entries = [*default_entries(first), *default_entries(second)]
    assert len({each.uid for each in entries}) == len(entries)
    for each in entries:
        metadata = each.decode()["metadata"]
        assert (metadata["uid"], metadata["resourceVersion"]) == (each.uid, str(each.rv))


async def test_entries_are_encoded_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    async with run_cluster(controllers=""):
        pass

    def fail() -> None:
        raise AssertionError("the default objects were read again")

    monkeypatch.setattr(default_role_entries, "default_objects", fail)
    async with run_cluster(controllers="") as cluster:
        assert default_entries(cluster)


async def test_restart_creates_what_was_deleted(tmp_path: Path) -> None:
    """Also if nothing of any kind is left: only a new store is written without requests."""
    async with run_cluster(data=tmp_path, controllers="") as cluster:
        before = default_entries(cluster)
        await delete_default_objects(cluster)
    async with run_cluster(data=tmp_path, controllers="") as cluster:
        after = default_entries(cluster)
        assert [comparable(each) for each in after] == [comparable(each) for each in before]
        assert min(each.rv for each in after) > max(each.rv for each in before)
        for plural in default_objects():
            kind = cluster.api.registry.served_kinds.find(GROUP, "v1", plural)
            assert kind is not None
            assert all(field_values(kind, each) == each.fields for each in after)
