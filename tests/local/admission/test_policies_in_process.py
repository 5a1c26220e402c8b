"""ValidatingAdmissionPolicies in an embedded cluster: what they hold back, and when."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from kilonova.kube import ApiStatusError, Client
from kilonova.kube.resource import plain
from tests.local.embedded_cluster import (
    CONFIG_MAPS,
    DEFINITIONS,
    NAMESPACES,
    SECRETS,
    definition,
    running,
)

GROUP = "admissionregistration.k8s.io"
POLICIES = plain(GROUP, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False)
BINDINGS = plain(
    GROUP, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", False
)
LIMITS = plain("example.com", "v1", "limits", "Limit", True)


@pytest.fixture
async def client() -> AsyncGenerator[Client]:
    async with running(controllers="definition-controller") as cluster:
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


async def refusal(client: Client, obj: Any, namespace: str = "default") -> str:
    """Why an object is refused; empty where it is not."""
    try:
        await client.create(CONFIG_MAPS, obj, namespace, dry_run=True)
    except ApiStatusError as error:
        return error.message
    return ""


async def test_a_policy_holds_from_binding_to_unbinding(client: Client) -> None:
    large = config_map(a="1", b="2")
    await client.create(POLICIES, policy(SMALL))
    assert not await refusal(client, large)
    await client.create(BINDINGS, binding())
    assert "Policy 'p' with binding 'b' denied request: at most one" in await refusal(client, large)
    assert not await refusal(client, config_map(a="1"))
    larger = {"expression": "size(object.data) < 3"}
    await client.patch(POLICIES, "p", {"spec": {"validations": [larger]}})
    assert not await refusal(client, large)
    await client.patch(POLICIES, "p", {"spec": {"validations": [SMALL]}})
    assert await refusal(client, large)
    await client.delete(BINDINGS, "b")
    assert not await refusal(client, large)


async def test_a_binding_narrows_its_policy(client: Client) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": "strict", "labels": {"strict": "yes"}}})
    await client.create(POLICIES, policy(SMALL))
    selected = {"namespaceSelector": {"matchLabels": {"strict": "yes"}}}
    await client.create(BINDINGS, binding(matchResources=selected))
    large = config_map(a="1", b="2")
    assert not await refusal(client, large)
    assert await refusal(client, large, "strict")


async def test_parameters_may_be_of_a_custom_kind(client: Client) -> None:
    limit = {"expression": "size(object.data) <= params.spec.most", "messageExpression": "'no'"}
    kind = {"apiVersion": "example.com/v1", "kind": "Limit"}
    await client.create(POLICIES, policy(limit, paramKind=kind))
    reference = {"name": "limit", "parameterNotFoundAction": "Deny"}
    await client.create(BINDINGS, binding(paramRef=reference))
    large = config_map(a="1", b="2")
    told = await refusal(client, large)
    assert "failed to find resource referenced by paramKind: 'example.com/v1, Kind=Limit'" in told
    await client.create(DEFINITIONS, definition("example.com", "Limit", "limits"))
    assert "no params found for policy binding with `Deny`" in await refusal(client, large)
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Limit",
        "metadata": {"name": "limit"},
        "spec": {"most": 1},
    }
    await client.create(LIMITS, body, "default")
    assert (await refusal(client, large)).endswith("denied request: no")
    await client.patch(LIMITS, "limit", {"spec": {"most": 2}}, "default")
    assert not await refusal(client, large)


@pytest.mark.parametrize(("action", "refused"), [("Allow", False), ("Deny", True)])
async def test_without_parameters_the_binding_decides(
    client: Client, action: str, refused: bool
) -> None:
    never = {"expression": "false"}
    await client.create(POLICIES, policy(never, paramKind={"apiVersion": "v1", "kind": "Secret"}))
    reference = {"selector": {"matchLabels": {"of": "p"}}, "parameterNotFoundAction": action}
    await client.create(BINDINGS, binding(paramRef=reference))
    assert bool(await refusal(client, config_map())) is refused
    await client.create(SECRETS, {"metadata": {"name": "s", "labels": {"of": "p"}}}, "default")
    assert await refusal(client, config_map())


@pytest.mark.parametrize(("failure", "refused"), [("Ignore", False), ("Fail", True)])
async def test_a_rule_that_fails_is_as_bad_as_its_policy_says(
    client: Client, failure: str, refused: bool
) -> None:
    failing = {"expression": "object.none.x == 1"}
    await client.create(POLICIES, policy(failing, failurePolicy=failure))
    await client.create(BINDINGS, binding())
    assert bool(await refusal(client, config_map())) is refused


async def test_a_failing_annotation_refuses_whatever_the_binding_says(client: Client) -> None:
    annotation = {"key": "k", "valueExpression": "object.none.x"}
    text = {"key": "t", "valueExpression": "string(object.none.x)"}
    with pytest.raises(ApiStatusError, match="must evaluate to one of"):
        await client.create(POLICIES, policy(auditAnnotations=[annotation]))
    await client.create(POLICIES, policy(auditAnnotations=[text]))
    await client.create(BINDINGS, binding(validationActions=["Audit"]))
    assert "resulted in error: no such key: none" in await refusal(client, config_map())


async def test_policies_are_not_held_to_policies(client: Client) -> None:
    everything = policy({"expression": "false"})
    rule = everything["spec"]["matchConstraints"]["resourceRules"][0]
    rule.update(apiGroups=["*"], apiVersions=["*"], operations=["*"], resources=["*"])
    await client.create(POLICIES, everything)
    await client.create(BINDINGS, binding())
    assert await refusal(client, config_map())
    await client.delete(BINDINGS, "b")
    assert not await refusal(client, config_map())
