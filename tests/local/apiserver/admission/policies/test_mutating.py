"""MutatingAdmissionPolicies in an embedded cluster."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from kilonova.kube import ApiStatusError, Client
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.cluster import EmbeddedCluster
from tests.local.apiserver.admission.webhooks.webhook_server import patched, serve_webhooks, webhook
from tests.local.embedded_cluster import (
    ACCOUNTS,
    CONFIG_MAPS,
    PODS,
    SECRETS,
    find,
    pod,
    run_cluster,
    wait_for_condition,
)

GROUP = "admissionregistration.k8s.io"
POLICIES = unstructured_resource(
    GROUP, "v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", False
)
BINDINGS = unstructured_resource(
    GROUP, "v1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", False
)
WEBHOOKS = unstructured_resource(
    GROUP, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False
)


@pytest.fixture
async def cluster() -> AsyncGenerator[EmbeddedCluster]:
    async with run_cluster(controllers="serviceaccount-controller") as cluster:
        yield cluster


@pytest.fixture
def client(cluster: EmbeddedCluster) -> Client:
    return cluster.client("me")


def apply(expression: str) -> Any:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patch(expression: str) -> Any:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


async def bind(client: Client, name: str, *mutations: Any, params: Any = None, **spec: Any) -> None:
    """Bind a policy to all new ConfigMaps and Pods."""
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["configmaps", "pods"],
    }
    policy = {
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [rule]},
        "mutations": list(mutations),
        **spec,
    }
    binding: Any = {"policyName": name} | ({"paramRef": params} if params else {})
    await client.create(POLICIES, {"metadata": {"name": name}, "spec": policy})
    await client.create(BINDINGS, {"metadata": {"name": name}, "spec": binding})


async def made(client: Client, **data: str) -> Any:
    body = {"metadata": {"name": "x"}, "data": data}
    return await client.create(CONFIG_MAPS, body, "default", dry_run=True)


async def test_apply_configuration_is_merged_and_defaulted(client: Client) -> None:
    side = "Object.spec.containers{name: 'side', image: 'i', ports: [%s]}"
    port = "Object.spec.containers.ports{containerPort: 80}"
    await bind(
        client,
        "side",
        apply(f"Object{{spec: Object.spec{{containers: [{side % port}]}}}}"),
        matchConditions=[{"name": "pods", "expression": "object.kind == 'Pod'"}],
    )

    async def has_account() -> bool:
        return await find(client, ACCOUNTS, "default") is not None

    await wait_for_condition(has_account)
    result = await client.create(PODS, pod("x"), "default", dry_run=True)
    main, side = result["spec"]["containers"]
    assert main["name"] == "main"
    assert side["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert "data" not in await made(client)


async def test_mutations_run_in_order_with_parameters(client: Client) -> None:
    await client.create(SECRETS, {"metadata": {"name": "s", "labels": {"word": "w"}}}, "default")
    word = "params.metadata.labels.word"
    await bind(
        client,
        "words",
        patch(f"[JSONPatch{{op: 'add', path: '/data/a', value: {word}}}]"),
        patch("[JSONPatch{op: 'add', path: '/data/b', value: object.data.a + variables.more}]"),
        paramKind={"apiVersion": "v1", "kind": "Secret"},
        params={"name": "s", "parameterNotFoundAction": "Deny"},
        variables=[{"name": "more", "expression": "'!' + request.operation"}],
    )
    assert (await made(client, q="1"))["data"] == {"q": "1", "a": "w", "b": "w!CREATE"}


async def test_policy_is_reinvoked_after_a_webhook(client: Client, tmp_path: Path) -> None:
    observed = "'seen by the policy: ' + object.data.?word.orValue('-')"
    await bind(
        client,
        "again",
        apply(f"Object{{data: {{'told': {observed}}}}}"),
        reinvocationPolicy="IfNeeded",
    )
    act = {"/word": lambda request: patched(request, add("/data/word", "w"))}
    with serve_webhooks(tmp_path / "tls", act) as server:
        hook = webhook(server, "word", "/word")
        await client.create(WEBHOOKS, {"metadata": {"name": "w"}, "webhooks": [hook]})
        result = await made(client, q="1")
    assert result["data"] == {"q": "1", "word": "w", "told": "seen by the policy: w"}


def add(path: str, value: Any) -> Any:
    return {"op": "add", "path": path, "value": value}


@pytest.mark.parametrize(("failure", "rejected"), [("Fail", True), ("Ignore", False)])
async def test_failing_mutation_follows_failure_policy(
    client: Client, failure: str, rejected: bool
) -> None:
    await bind(
        client,
        "fails",
        patch("[JSONPatch{op: 'add', path: '/data/x', value: object.none.x}]"),
        patch("[JSONPatch{op: 'add', path: '/data/y', value: 'y'}]"),
        failurePolicy=failure,
    )
    if rejected:
        reported = (
            "policy 'fails' with binding 'fails' denied request: expression .* no such key: none"
        )
        with pytest.raises(ApiStatusError, match=reported):
            await made(client, q="1")
    else:
        assert (await made(client, q="1"))["data"] == {"q": "1", "y": "y"}
