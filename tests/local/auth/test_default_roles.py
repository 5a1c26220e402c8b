"""The roles that every cluster has, at its first start and at later ones."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kilonova.kube.resource import plain
from kilonova.local.auth.rbac.defaults import default_objects, reconciling_patch
from tests.local.embedded_cluster import running

pytestmark = pytest.mark.looptime

GROUP = "rbac.authorization.k8s.io"
ROLES = plain(GROUP, "v1", "clusterroles", "ClusterRole", False)
BINDINGS = plain(GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", False)
AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"

GET = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
LIST = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
AMY, BOB = {"kind": "User", "name": "amy"}, {"kind": "User", "name": "bob"}


def named(**fields: Any) -> Any:
    return {"metadata": {"name": "x", **fields.pop("metadata", {})}, **fields}


@pytest.mark.parametrize(
    ("live", "wanted", "patch"),
    [
        (named(rules=[GET]), named(rules=[GET]), None),
        (named(rules=[GET, LIST]), named(rules=[GET]), None),
        (named(rules=[LIST]), named(rules=[GET]), {"rules": [LIST, GET]}),
        (
            named(rules=[{**GET, "verbs": ["get", "list"]}]),
            named(rules=[GET, LIST]),
            None,
        ),
        (named(subjects=[BOB]), named(subjects=[AMY]), {"subjects": [BOB, AMY]}),
        (named(), named(subjects=[AMY]), {"subjects": [AMY]}),
        (
            named(metadata={"labels": {"a": "mine"}}),
            named(metadata={"labels": {"a": "theirs", "b": "c"}}),
            {"metadata": {"labels": {"b": "c"}}},
        ),
        (
            named(aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}),
            named(rules=[]),
            {"aggregationRule": None},
        ),
        (
            named(),
            named(aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}),
            {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}},
        ),
    ],
)
def test_what_is_missing_comes_back_and_what_was_added_stays(
    live: Any, wanted: Any, patch: Any
) -> None:
    written = msgspec.json.encode(reconciling_patch(live, wanted))
    assert msgspec.json.decode(written) == patch


async def test_every_default_is_there_and_a_second_start_writes_none(tmp_path: Path) -> None:
    async with running(data=tmp_path, controllers="") as cluster:
        for plural, wanted in default_objects().items():
            found = cluster.store.collection(f"{plural}.{GROUP}").between("")
            names = {each.key.rpartition("/")[2] for each in found}
            assert names >= {each["metadata"]["name"] for each in wanted}
        before = {each.key: each.rv for each in stored(cluster)}
    async with running(data=tmp_path, controllers="") as cluster:
        assert {each.key: each.rv for each in stored(cluster)} == before


def stored(cluster: Any) -> list[Any]:
    return [
        entry
        for plural in default_objects()
        for entry in cluster.store.collection(f"{plural}.{GROUP}").between("")
    ]


async def test_a_start_mends_what_people_broke_unless_they_ask_it_not_to(tmp_path: Path) -> None:
    async with running(data=tmp_path, controllers="") as cluster:
        client = cluster.client("test")
        await client.patch(ROLES, "system:basic-user", {"rules": [GET]})
        kept = {"metadata": {"annotations": {AUTO_UPDATE: "false"}}, "rules": [GET]}
        await client.patch(ROLES, "system:discovery", kept)
        await client.delete(BINDINGS, "cluster-admin")
        other = {"metadata": {"name": "system:discovery"}, "subjects": [AMY]}
        await client.delete(BINDINGS, "system:discovery")
        reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "other"}
        await client.create(BINDINGS, {**other, "roleRef": reference})
    async with running(data=tmp_path, controllers="") as cluster:
        client = cluster.client("test")
        mended = await client.get(ROLES, "system:basic-user")
        assert mended["rules"][0] == GET
        assert len(mended["rules"]) > 1
        assert (await client.get(ROLES, "system:discovery"))["rules"] == [GET]
        masters = await client.get(BINDINGS, "cluster-admin")
        assert masters["subjects"][0]["name"] == "system:masters"
        discovery = await client.get(BINDINGS, "system:discovery")
        assert discovery["roleRef"]["name"] == "system:discovery"
