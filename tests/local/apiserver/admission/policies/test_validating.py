"""ValidatingAdmissionPolicies in an embedded cluster: which writes they reject."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from kilonova.kube import ApiStatusError, Client
from kilonova.kube.client.resource import unstructured_resource
from tests.local.embedded_cluster import (
    CONFIG_MAPS,
    DEFINITIONS,
    NAMESPACES,
    SECRETS,
    definition,
    run_cluster,
)

GROUP = "admissionregistration.k8s.io"
POLICIES = unstructured_resource(
    GROUP, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False
)
BINDINGS = unstructured_resource(
    GROUP, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", False
)
LIMITS = unstructured_resource("example.com", "v1", "limits", "Limit", True)


@pytest.fixture
async def client() -> AsyncGenerator[Client]:
    async with run_cluster(controllers="definition-controller") as cluster:
        yield cluster.client("me")


def policy(*validations: Any, **spec: Any) -> Any:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["configmaps"],
    }
    return {
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": list(validations),
            **spec,
        },
    }


def binding(**spec: Any) -> Any:
    return {
        "metadata": {"name": "b"},
        "spec": {"policyName": "p", "validationActions": ["Deny"], **spec},
    }


def config_map(name: str = "x", **data: str) -> Any:
    return {"metadata": {"name": name}, "data": data}


SMALL = {"expression": "size(object.data) < 2", "message": "at most one"}


async def rejection_of(client: Client, obj: Any, namespace: str = "default") -> str:
    """The message of the rejection of an object; empty if it is accepted."""
    try:
        await client.create(CONFIG_MAPS, obj, namespace, dry_run=True)
    except ApiStatusError as error:
        return error.message
    return ""


async def test_policy_is_enforced_while_bound(client: Client) -> None:
    large = config_map(a="1", b="2")
    await client.create(POLICIES, policy(SMALL))
    assert not await rejection_of(client, large)
    await client.create(BINDINGS, binding())
    assert "Policy 'p' with binding 'b' denied request: at most one" in await rejection_of(
        client, large
    )
    assert not await rejection_of(client, config_map(a="1"))
    larger = {"expression": "size(object.data) < 3"}
    await client.patch(POLICIES, "p", {"spec": {"validations": [larger]}})
    assert not await rejection_of(client, large)
    await client.patch(POLICIES, "p", {"spec": {"validations": [SMALL]}})
    assert await rejection_of(client, large)
    await client.delete(BINDINGS, "b")
    assert not await rejection_of(client, large)


async def test_binding_narrows_its_policy(client: Client) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": "strict", "labels": {"strict": "yes"}}})
    await client.create(POLICIES, policy(SMALL))
    selected = {"namespaceSelector": {"matchLabels": {"strict": "yes"}}}
    await client.create(BINDINGS, binding(matchResources=selected))
    large = config_map(a="1", b="2")
    assert not await rejection_of(client, large)
    assert await rejection_of(client, large, "strict")


async def test_parameters_may_be_of_a_custom_kind(client: Client) -> None:
    limit = {"expression": "size(object.data) <= params.spec.most", "messageExpression": "'no'"}
    kind = {"apiVersion": "example.com/v1", "kind": "Limit"}
    await client.create(POLICIES, policy(limit, paramKind=kind))
    reference = {"name": "limit", "parameterNotFoundAction": "Deny"}
    await client.create(BINDINGS, binding(paramRef=reference))
    large = config_map(a="1", b="2")
    reported = await rejection_of(client, large)
    assert (
        "failed to find resource referenced by paramKind: 'example.com/v1, Kind=Limit'" in reported
    )
    await client.create(DEFINITIONS, definition("example.com", "Limit", "limits"))
    assert "no params found for policy binding with `Deny`" in await rejection_of(client, large)
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Limit",
        "metadata": {"name": "limit"},
        "spec": {"most": 1},
    }
    await client.create(LIMITS, body, "default")
    assert (await rejection_of(client, large)).endswith("denied request: no")
    await client.patch(LIMITS, "limit", {"spec": {"most": 2}}, "default")
    assert not await rejection_of(client, large)


@pytest.mark.parametrize(("action", "rejected"), [("Allow", False), ("Deny", True)])
async def test_parameter_not_found_action_of_the_binding_decides(
    client: Client, action: str, rejected: bool
) -> None:
    never = {"expression": "false"}
    await client.create(POLICIES, policy(never, paramKind={"apiVersion": "v1", "kind": "Secret"}))
    reference = {"selector": {"matchLabels": {"of": "p"}}, "parameterNotFoundAction": action}
    await client.create(BINDINGS, binding(paramRef=reference))
    assert bool(await rejection_of(client, config_map())) is rejected
    await client.create(SECRETS, {"metadata": {"name": "s", "labels": {"of": "p"}}}, "default")
    assert await rejection_of(client, config_map())


@pytest.mark.parametrize(("failure", "rejected"), [("Ignore", False), ("Fail", True)])
async def test_failing_validation_follows_failure_policy(
    client: Client, failure: str, rejected: bool
) -> None:
    failing = {"expression": "object.none.x == 1"}
    await client.create(POLICIES, policy(failing, failurePolicy=failure))
    await client.create(BINDINGS, binding())
    assert bool(await rejection_of(client, config_map())) is rejected


async def test_failing_audit_annotation_always_rejects(client: Client) -> None:
    annotation = {"key": "k", "valueExpression": "object.none.x"}
    text = {"key": "t", "valueExpression": "string(object.none.x)"}
    with pytest.raises(ApiStatusError, match="must evaluate to one of"):
        await client.create(POLICIES, policy(auditAnnotations=[annotation]))
    await client.create(POLICIES, policy(auditAnnotations=[text]))
    await client.create(BINDINGS, binding(validationActions=["Audit"]))
    assert "resulted in error: no such key: none" in await rejection_of(client, config_map())


async def test_policies_do_not_apply_to_policies(client: Client) -> None:
    everything = policy({"expression": "false"})
    rule = everything["spec"]["matchConstraints"]["resourceRules"][0]
    rule.update(apiGroups=["*"], apiVersions=["*"], operations=["*"], resources=["*"])
    await client.create(POLICIES, everything)
    await client.create(BINDINGS, binding())
    assert await rejection_of(client, config_map())
    await client.delete(BINDINGS, "b")
    assert not await rejection_of(client, config_map())
