"""Both API servers ask the operator's webhooks, and obey."""

import asyncio
from base64 import b64decode
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kilonova.kube import ApiStatusError, NotFound, plain
from kilonova.kube.admission.configuration import CONFIGURATIONS
from kilonova.workloads.admission import NAME, AtUrl, install_webhooks
from kilonova.workloads.settings import Settings
from tests.conftest import Api
from tests.harness.kubectl import Kubectl
from tests.workloads.admission.webhooks import webhooks
from tests.workloads.admission.written import clique, group, pod_clique_set, with_value

SETS = plain("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet", True)
CLIQUES = plain("grove.io", "v1alpha1", "podcliques", "PodClique", True)
TOPOLOGIES = plain(
    "grove.io", "v1alpha1", "clustertopologybindings", "ClusterTopologyBinding", False
)


def named(namespace: str, *cliques: Any, **more: Any) -> dict[str, Any]:
    return with_value(pod_clique_set(*cliques, **more), "metadata.namespace", namespace)


async def test_a_set_is_filled_in_before_it_is_stored(api: Api, tmp_path: Path) -> None:
    async with webhooks(api, tmp_path) as client:
        written = named(api.namespace, clique("a", 2), clique("b"), groups=(group("g", "b"),))
        for name in ("replicas", "minAvailable"):
            written["spec"]["template"]["cliques"][1]["spec"].pop(name, None)
        stored = await client.create(SETS, written, api.namespace)
        template = stored["spec"]["template"]
        assert template["terminationDelay"] == "4h"
        assert template["headlessServiceConfig"] == {"publishNotReadyAddresses": True}
        assert [
            (each["spec"]["replicas"], each["spec"]["minAvailable"]) for each in template["cliques"]
        ] == [(2, 2), (1, 1)]
        assert template["cliques"][0]["spec"]["podSpec"]["restartPolicy"] == "Always"


async def test_a_broken_rule_is_told_as_kubernetes_tells_it(api: Api, tmp_path: Path) -> None:
    async with webhooks(api, tmp_path) as client:
        written = named(api.namespace, clique("a", 3), clique("b", 3, minAvailable=5))
        with pytest.raises(ApiStatusError) as refusal:
            await client.create(SETS, written, api.namespace)
        field, rule = "spec.template.cliques[1].spec.minAvailable", "must not be greater than"
        assert refusal.value.code == 422
        assert refusal.value.causes[0]["field"] == field
        assert refusal.value.message == (
            'admission webhook "validate.podcliqueset.grove.io" denied the request: '
            f"{field}: Invalid value: 5: {rule} replicas (3)"
        )


async def test_more_than_anybody_can_have_is_refused_with_its_factors(
    api: Api, tmp_path: Path
) -> None:
    async with webhooks(api, tmp_path) as client:
        written = named(api.namespace, clique("a", 400), groups=(group("g", "a", replicas=50),))
        absurd = with_value(written, "spec.replicas", 6)
        with pytest.raises(ApiStatusError) as refusal:
            await client.create(SETS, absurd, api.namespace)
        assert refusal.value.code == 422
        assert refusal.value.causes[0]["field"] == "spec.template.cliques[0].spec.replicas"
        assert refusal.value.message.endswith(
            "Invalid value: 400: comes to 120000 pods, more than 100000: lower one of "
            "spec.replicas (6) × spec.template.podCliqueScalingGroups[0].replicas (50) × "
            "spec.template.cliques[0].spec.replicas (400)"
        )
        # Only tried: tests that come later run operators, which would make all of its pods.
        most = with_value(written, "spec.replicas", 5)
        await client.create(SETS, most, api.namespace, dry_run=True)
        await client.create(SETS, with_value(written, "spec.replicas", 0), api.namespace)
        with pytest.raises(ApiStatusError, match="comes to 120000 pods"):
            await client.patch(SETS, "set", {"spec": {"replicas": 6}}, api.namespace)


async def test_what_is_immutable_stays_and_the_rest_changes(api: Api, tmp_path: Path) -> None:
    async with webhooks(api, tmp_path) as client:
        await client.create(SETS, named(api.namespace, clique("a")), api.namespace)
        scaled = await client.patch(SETS, "set", {"spec": {"replicas": 3}}, api.namespace)
        assert scaled["spec"]["replicas"] == 3
        order = {"spec": {"template": {"cliqueStartupType": "CliqueStartupTypeInOrder"}}}
        with pytest.raises(ApiStatusError, match="field is immutable: it was") as refusal:
            await client.patch(SETS, "set", order, api.namespace)
        assert refusal.value.code == 422
        finalizers = {"metadata": {"finalizers": ["grove.io/podcliqueset.grove.io"]}}
        await client.patch(SETS, "set", finalizers, api.namespace)
        await client.delete(SETS, "set", api.namespace)
        freed = {"metadata": {"finalizers": None}}
        await client.patch(SETS, "set", freed, api.namespace)
        with pytest.raises(NotFound):
            await client.get(SETS, "set", api.namespace)


async def test_a_set_may_follow_its_topology_at_once(api: Api, tmp_path: Path) -> None:
    name = f"topology-of-{api.namespace}"
    constraint = {"topologyName": name, "pack": {"required": "rack"}}
    written = named(api.namespace, clique("a"), topologyConstraint=constraint)
    async with webhooks(api, tmp_path) as client:
        with pytest.raises(ApiStatusError, match="there is no ClusterTopologyBinding of this name"):
            await client.create(SETS, written, api.namespace)
        levels = [{"domain": "rack", "key": "example.com/rack"}]
        twice = {"metadata": {"name": name}, "spec": {"levels": levels * 2}}
        with pytest.raises(ApiStatusError, match=r"spec.levels\[1\].domain: Duplicate value"):
            await client.create(TOPOLOGIES, twice)
        await client.create(TOPOLOGIES, {"metadata": {"name": name}, "spec": {"levels": levels}})
        try:
            await client.create(SETS, written, api.namespace)
        finally:
            await client.delete(TOPOLOGIES, name)


async def test_a_warning_reaches_the_author(api: Api, kubectl: Kubectl, tmp_path: Path) -> None:
    async with webhooks(api, tmp_path / "tls"):
        written = named(api.namespace, clique("a", 0), clique("b", startsAfter=["a"]))
        text = msgspec.json.encode(written).decode()
        shown = await asyncio.to_thread(kubectl, "apply -f -", stdin=text)
        assert shown.out == "podcliqueset.grove.io/set created\n"
        assert "Warning: spec.template.cliques[0].spec.replicas: 0 is taken as 1" in shown.err
        assert "Warning: spec.template.cliques[1].spec.startsAfter: has no effect" in shown.err


async def test_hands_are_kept_off_what_the_operator_made(api: Api, tmp_path: Path) -> None:
    labels = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "set"}
    child = {"metadata": {"name": "set-0-a", "labels": labels}, "spec": clique("a")["spec"]}
    async with webhooks(api, tmp_path, Settings(authorizer=True)) as client:
        await client.create(CLIQUES, child, api.namespace)
        await client.create(SETS, named(api.namespace, clique("a")), api.namespace)
        with pytest.raises(ApiStatusError, match='belongs to PodCliqueSet "set"') as refusal:
            await client.delete(CLIQUES, "set-0-a", api.namespace)
        assert refusal.value.code == 403
        stripped = {"metadata": {"labels": None}}
        with pytest.raises(ApiStatusError, match='belongs to PodCliqueSet "set"'):
            await client.patch(CLIQUES, "set-0-a", stripped, api.namespace)
        open_ = {"grove.io/disable-managed-resource-protection": "true"}
        await client.patch(SETS, "set", {"metadata": {"annotations": open_}}, api.namespace)
        await client.delete(CLIQUES, "set-0-a", api.namespace)


async def test_installing_again_writes_nothing_and_switching_off_removes(
    api: Api, tmp_path: Path
) -> None:
    protected, open_ = Settings(authorizer=True), Settings()
    async with webhooks(api, tmp_path, open_) as client:
        found = [await client.get(each, NAME) for each in CONFIGURATIONS]
        server = found[0]["webhooks"][0]["clientConfig"]
        address = AtUrl(server["url"].removesuffix("/webhooks/default-podcliqueset"))
        ca = b64decode(server["caBundle"])
        await install_webhooks(client, address, ca, open_)
        assert [await client.get(each, NAME) for each in CONFIGURATIONS] == found
        await install_webhooks(client, address, ca, protected)
        assert len((await client.get(CONFIGURATIONS[1], NAME))["webhooks"]) == 3
        await install_webhooks(client, address, b"another authority", open_)
        (defaults,) = (await client.get(CONFIGURATIONS[0], NAME))["webhooks"]
        assert defaults["clientConfig"]["caBundle"] != server["caBundle"]
        assert len((await client.get(CONFIGURATIONS[1], NAME))["webhooks"]) == 2
