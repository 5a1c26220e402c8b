"""In-process webhooks of subresources: bindings, evictions, scales, statuses, connections."""

from typing import Any

import pytest

from kilonova.kube import ApiStatusError, Client
from kilonova.kube.admission import AdmissionRequest, AdmissionResponse, Allowed, Denied, Mutated
from kilonova.kube.admission.in_process import InProcessWebhook
from kilonova.kube.client.resource import unstructured_resource
from kilonova.kube.client.transport import Request
from kilonova.local.cluster import EmbeddedCluster
from tests.local.apiserver.admission.webhooks.webhook_cluster import (
    EVE,
    cluster_with_webhooks,
)
from tests.local.embedded_cluster import ACCOUNTS, NODES, PODS

DEPLOYMENTS = unstructured_resource("apps", "v1", "deployments", "Deployment", True)
OPERATIONS = ("CREATE", "UPDATE", "CONNECT")

POD: Any = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "i"}]}}
LABELS = {"app": "web"}
DEPLOYMENT: Any = {
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS}, "spec": POD["spec"]},
    },
}

RULES = {
    ("", "pods"): ["pods Pod"],
    ("", "pods/binding"): ["pods/binding Binding"],
    ("", "pods/eviction"): ["pods/eviction Eviction"],
    ("", "pods/status"): ["pods/status Pod"],
    ("", "pods/exec"): ["pods/exec PodExecOptions"],
    ("", "*/scale"): [],
    ("apps", "*/scale"): ["deployments/scale Scale"],
    ("*", "*/scale"): ["deployments/scale Scale"],
    ("apps", "deployments"): ["deployments Deployment"],
    ("apps", "*"): ["deployments Deployment"],
    ("", "pods/*"): [
        "pods Pod",
        "pods/binding Binding",
        "pods/status Pod",
        "pods/exec PodExecOptions",
        "pods/eviction Eviction",
    ],
    ("", "deployments"): [],
}
"""By group and resource of a rule, what it matches of the requests below, in order."""


def watch_rule(
    rule: tuple[str, str], observed: dict[tuple[str, str], list[str]]
) -> InProcessWebhook:
    """A webhook that records what it reviews."""

    async def record(review: AdmissionRequest) -> AdmissionResponse:
        subresource = f"/{review.sub_resource}" if review.sub_resource else ""
        observed[rule].append(f"{review.resource.resource}{subresource} {review.kind.kind}")
        return Allowed()

    return InProcessWebhook("watch.example.com", record, *rule, OPERATIONS)


async def create_pod(client: Client) -> None:
    """The pod, with the account that a controller would have created."""
    await client.create(ACCOUNTS, {"metadata": {"name": "default"}}, "default")
    await client.create(PODS, POD, "default")


async def write_everything(cluster: EmbeddedCluster) -> None:
    """Every kind of request that the rules above name."""
    client = cluster.client("me")
    await client.create(NODES, {"metadata": {"name": "n"}})
    await create_pod(client)
    await client.bind("p", "default", "n")
    await client.patch(PODS, "p", {"status": {"phase": "Running"}}, "default", subresource="status")
    query = [("command", "true"), ("stdout", "true")]
    path = "/api/v1/namespaces/default/pods/p/exec"
    await cluster.api.handle(Request("POST", path, query, {}, b""), EVE)
    await client.evict("p", "default")
    await client.create(DEPLOYMENTS, DEPLOYMENT, "default")
    await client.set_scale(DEPLOYMENTS, "web", "default", 3)


async def test_rules_match_resources_and_subresources_as_in_kubernetes() -> None:
    observed: dict[tuple[str, str], list[str]] = {rule: [] for rule in RULES}
    hooks = [watch_rule(rule, observed) for rule in RULES]
    async with cluster_with_webhooks(*hooks) as cluster:
        await write_everything(cluster)
    assert observed == RULES


async def test_a_denied_binding_leaves_the_pod_unbound() -> None:
    async def deny(review: AdmissionRequest) -> AdmissionResponse:
        assert review.object is not None
        return Denied(f"not on {review.object['target']['name']}")

    hook = InProcessWebhook("guard.example.com", deny, "", "pods/binding", ("CREATE",))
    async with cluster_with_webhooks(hook) as cluster:
        client = cluster.client("me")
        await create_pod(client)
        with pytest.raises(ApiStatusError, match="not on n"):
            await client.bind("p", "default", "n")
        assert "nodeName" not in (await client.get(PODS, "p", "default"))["spec"]


async def test_a_scale_is_mutated_before_it_is_applied() -> None:
    async def limit(review: AdmissionRequest) -> AdmissionResponse:
        assert review.object is not None
        review.object["spec"]["replicas"] = min(review.object["spec"]["replicas"], 5)
        return Mutated(review.object)

    hook = InProcessWebhook("limit.example.com", limit, "*", "*/scale", ("UPDATE",), mutating=True)
    async with cluster_with_webhooks(hook) as cluster:
        client = cluster.client("me")
        await client.create(DEPLOYMENTS, DEPLOYMENT, "default")
        await client.set_scale(DEPLOYMENTS, "web", "default", 9)
        live = await client.get(DEPLOYMENTS, "web", "default")
    assert live["spec"]["replicas"] == 5
