"""Both API servers call the operator's webhooks and enforce their responses."""

import asyncio
from base64 import b64decode
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kilonova.kube import ApiStatusError, NotFound, unstructured_resource
from kilonova.kube.admission.ca_bundle import WEBHOOK_CONFIGURATIONS
from kilonova.workloads.admission import CONFIGURATION_NAME, UrlEndpoint, install_webhooks
from kilonova.workloads.settings import OperatorSettings
from tests.conftest import Api
from tests.harness.kubectl import Kubectl
from tests.workloads.admission.running_webhooks import running_webhooks
from tests.workloads.admission.set_manifests import clique, group, pod_clique_set, set_field

SETS = unstructured_resource("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet", True)
CLIQUES = unstructured_resource("grove.io", "v1alpha1", "podcliques", "PodClique", True)
TOPOLOGIES = unstructured_resource(
    "grove.io", "v1alpha1", "clustertopologybindings", "ClusterTopologyBinding", False
)


def build_named_set(namespace: str, *cliques: Any, **more: Any) -> dict[str, Any]:
    return set_field(pod_clique_set(*cliques, **more), "metadata.namespace", namespace)


async def test_set_is_defaulted_before_it_is_stored(api: Api, tmp_path: Path) -> None:
    async with running_webhooks(api, tmp_path) as client:
        written = build_named_set(
            api.namespace, clique("a", 2), clique("b"), groups=(group("g", "b"),)
        )
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


async def test_violated_rule_is_reported_as_by_kubernetes(api: Api, tmp_path: Path) -> None:
    async with running_webhooks(api, tmp_path) as client:
        written = build_named_set(api.namespace, clique("a", 3), clique("b", 3, minAvailable=5))
        with pytest.raises(ApiStatusError) as rejection:
            await client.create(SETS, written, api.namespace)
        field, rule = "spec.template.cliques[1].spec.minAvailable", "must not be greater than"
        assert rejection.value.code == 422
        assert rejection.value.causes[0]["field"] == field
        assert rejection.value.message == (
            'admission webhook "validate.podcliqueset.grove.io" denied the request: '
            f"{field}: Invalid value: 5: {rule} replicas (3)"
        )


async def test_requests_over_the_limit_are_rejected_with_their_factors(
    api: Api, tmp_path: Path
) -> None:
    async with running_webhooks(api, tmp_path) as client:
        written = build_named_set(
            api.namespace, clique("a", 400), groups=(group("g", "a", replicas=50),)
        )
        oversized = set_field(written, "spec.replicas", 6)
        with pytest.raises(ApiStatusError) as rejection:
            await client.create(SETS, oversized, api.namespace)
        assert rejection.value.code == 422
        assert rejection.value.causes[0]["field"] == "spec.template.cliques[0].spec.replicas"
        assert rejection.value.message.endswith(
            "Invalid value: 400: results in 120000 pods, and the limit is 100000; reduce one of "
            "spec.replicas (6) × spec.template.podCliqueScalingGroups[0].replicas (50) × "
            "spec.template.cliques[0].spec.replicas (400)"
        )
        # Dry run only: operators of later tests would create all of its pods.
        most = set_field(written, "spec.replicas", 5)
        await client.create(SETS, most, api.namespace, dry_run=True)
        await client.create(SETS, set_field(written, "spec.replicas", 0), api.namespace)
        with pytest.raises(ApiStatusError, match="results in 120000 pods"):
            await client.patch(SETS, "set", {"spec": {"replicas": 6}}, api.namespace)


async def test_immutable_fields_stay_and_others_change(api: Api, tmp_path: Path) -> None:
    async with running_webhooks(api, tmp_path) as client:
        await client.create(SETS, build_named_set(api.namespace, clique("a")), api.namespace)
        scaled = await client.patch(SETS, "set", {"spec": {"replicas": 3}}, api.namespace)
        assert scaled["spec"]["replicas"] == 3
        order = {"spec": {"template": {"cliqueStartupType": "CliqueStartupTypeInOrder"}}}
        with pytest.raises(ApiStatusError, match="field is immutable: it was") as rejection:
            await client.patch(SETS, "set", order, api.namespace)
        assert rejection.value.code == 422
        finalizers = {"metadata": {"finalizers": ["grove.io/podcliqueset.grove.io"]}}
        await client.patch(SETS, "set", finalizers, api.namespace)
        await client.delete(SETS, "set", api.namespace)
        freed = {"metadata": {"finalizers": None}}
        await client.patch(SETS, "set", freed, api.namespace)
        with pytest.raises(NotFound):
            await client.get(SETS, "set", api.namespace)


async def test_set_may_be_created_right_after_its_topology(api: Api, tmp_path: Path) -> None:
    name = f"topology-of-{api.namespace}"
    constraint = {"topologyName": name, "pack": {"required": "rack"}}
    written = build_named_set(api.namespace, clique("a"), topologyConstraint=constraint)
    async with running_webhooks(api, tmp_path) as client:
        with pytest.raises(ApiStatusError, match="the ClusterTopologyBinding does not exist"):
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


async def test_warning_is_shown_by_kubectl(api: Api, kubectl: Kubectl, tmp_path: Path) -> None:
    async with running_webhooks(api, tmp_path / "tls"):
        written = build_named_set(api.namespace, clique("a", 0), clique("b", startsAfter=["a"]))
        text = msgspec.json.encode(written).decode()
        shown = await asyncio.to_thread(kubectl, "apply -f -", stdin=text)
        assert shown.out == "podcliqueset.grove.io/set created\n"
        assert "Warning: spec.template.cliques[0].spec.replicas: 0 is defaulted to 1" in shown.err
        assert "Warning: spec.template.cliques[1].spec.startsAfter: has no effect" in shown.err


async def test_users_cannot_change_managed_objects(api: Api, tmp_path: Path) -> None:
    labels = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "set"}
    child = {"metadata": {"name": "set-0-a", "labels": labels}, "spec": clique("a")["spec"]}
    async with running_webhooks(api, tmp_path, OperatorSettings(authorizer=True)) as client:
        await client.create(CLIQUES, child, api.namespace)
        await client.create(SETS, build_named_set(api.namespace, clique("a")), api.namespace)
        with pytest.raises(ApiStatusError, match='operator of PodCliqueSet "set"') as rejection:
            await client.delete(CLIQUES, "set-0-a", api.namespace)
        assert rejection.value.code == 403
        stripped = {"metadata": {"labels": None}}
        with pytest.raises(ApiStatusError, match='operator of PodCliqueSet "set"'):
            await client.patch(CLIQUES, "set-0-a", stripped, api.namespace)
        open_ = {"grove.io/disable-managed-resource-protection": "true"}
        await client.patch(SETS, "set", {"metadata": {"annotations": open_}}, api.namespace)
        await client.delete(CLIQUES, "set-0-a", api.namespace)


async def test_reinstalling_writes_nothing_and_disabling_removes_the_webhook(
    api: Api, tmp_path: Path
) -> None:
    protected, open_ = OperatorSettings(authorizer=True), OperatorSettings()
    async with running_webhooks(api, tmp_path, open_) as client:
        found = [await client.get(each, CONFIGURATION_NAME) for each in WEBHOOK_CONFIGURATIONS]
        server = found[0]["webhooks"][0]["clientConfig"]
        address = UrlEndpoint(server["url"].removesuffix("/webhooks/default-podcliqueset"))
        ca = b64decode(server["caBundle"])
        await install_webhooks(client, address, ca, open_)
        assert [
            await client.get(each, CONFIGURATION_NAME) for each in WEBHOOK_CONFIGURATIONS
        ] == found
        await install_webhooks(client, address, ca, protected)
        assert (
            len((await client.get(WEBHOOK_CONFIGURATIONS[1], CONFIGURATION_NAME))["webhooks"]) == 3
        )
        await install_webhooks(client, address, b"another authority", open_)
        (defaults,) = (await client.get(WEBHOOK_CONFIGURATIONS[0], CONFIGURATION_NAME))["webhooks"]
        assert defaults["clientConfig"]["caBundle"] != server["caBundle"]
        assert (
            len((await client.get(WEBHOOK_CONFIGURATIONS[1], CONFIGURATION_NAME))["webhooks"]) == 2
        )
