"""The default roles of a cluster, at its first start and at later ones."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.apiserver.auth.rbac.default_roles import default_objects, reconciling_patch
from tests.local.embedded_cluster import run_cluster

pytestmark = pytest.mark.looptime

GROUP = "rbac.authorization.k8s.io"
ROLES = unstructured_resource(GROUP, "v1", "clusterroles", "ClusterRole", False)
BINDINGS = unstructured_resource(GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", False)
AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"

GET = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
LIST = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
AMY, BOB = {"kind": "User", "name": "amy"}, {"kind": "User", "name": "bob"}


def named(**fields: Any) -> Any:
    return {"metadata": {"name": "x", **fields.pop("metadata", {})}, **fields}


@pytest.mark.parametrize(
    ("live", "expected", "patch"),
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
def test_missing_rules_are_restored_and_additions_preserved(
    live: Any, expected: Any, patch: Any
) -> None:
    written = msgspec.json.encode(reconciling_patch(live, expected))
    assert msgspec.json.decode(written) == patch


async def test_all_defaults_exist_and_a_second_start_writes_none(tmp_path: Path) -> None:
    async with run_cluster(data=tmp_path, controllers="") as cluster:
        for plural, expected in default_objects().items():
            found = cluster.store.collection(f"{plural}.{GROUP}").range_entries("")
            names = {each.key.rpartition("/")[2] for each in found}
            assert names >= {each["metadata"]["name"] for each in expected}
        before = {each.key: each.rv for each in stored(cluster)}
    async with run_cluster(data=tmp_path, controllers="") as cluster:
        assert {each.key: each.rv for each in stored(cluster)} == before


def stored(cluster: Any) -> list[Any]:
    return [
        entry
        for plural in default_objects()
        for entry in cluster.store.collection(f"{plural}.{GROUP}").range_entries("")
    ]


async def test_start_restores_default_roles_unless_autoupdate_is_false(tmp_path: Path) -> None:
    async with run_cluster(data=tmp_path, controllers="") as cluster:
        client = cluster.client("test")
        await client.patch(ROLES, "system:basic-user", {"rules": [GET]})
        retained = {"metadata": {"annotations": {AUTO_UPDATE: "false"}}, "rules": [GET]}
        await client.patch(ROLES, "system:discovery", retained)
        await client.delete(BINDINGS, "cluster-admin")
        other = {"metadata": {"name": "system:discovery"}, "subjects": [AMY]}
        await client.delete(BINDINGS, "system:discovery")
        reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "other"}
        await client.create(BINDINGS, {**other, "roleRef": reference})
    async with run_cluster(data=tmp_path, controllers="") as cluster:
        client = cluster.client("test")
        mended = await client.get(ROLES, "system:basic-user")
        assert mended["rules"][0] == GET
        assert len(mended["rules"]) > 1
        assert (await client.get(ROLES, "system:discovery"))["rules"] == [GET]
        masters = await client.get(BINDINGS, "cluster-admin")
        assert masters["subjects"][0]["name"] == "system:masters"
        discovery = await client.get(BINDINGS, "system:discovery")
        assert discovery["roleRef"]["name"] == "system:discovery"
