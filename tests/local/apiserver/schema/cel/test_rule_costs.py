"""Rules and policies that exceed the cost limit."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from kilonova.kube import ApiStatusError, Client
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.apiserver.schema.cel import rule_set
from kilonova.local.apiserver.schema.node import parse_schema
from tests.local.embedded_cluster import CONFIG_MAPS, DEFINITIONS, definition, run_cluster

EXHAUSTED = "operation cancelled: actual cost limit exceeded"
EXPENSIVE = "lists.range(100000000).size() > 0"


def test_all_rules_of_an_object_share_a_time_limit() -> None:
    slow = {"rule": "lists.range(9000).all(x, " + "&&".join(["x < 10000"] * 200) + ")"}
    item = {"type": "integer", "x-kubernetes-validations": [slow]}
    fields = {"list": {"type": "array", "items": item}}
    rules = rule_set(parse_schema({"type": "object", "properties": fields}))
    assert rules is not None
    problems = [str(each) for each in rules.check({"list": [1] * 100})]
    assert len(problems) == 1
    assert "validation failed due to running out of cost budget" in problems[0]


POLICY = "validatingadmissionpolicies"
POLICIES = unstructured_resource(
    "admissionregistration.k8s.io", "v1", POLICY, "ValidatingAdmissionPolicy", namespaced=False
)
BINDINGS = unstructured_resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
THINGS = unstructured_resource("example.com", "v1", "things", "Thing", namespaced=True)


@pytest.fixture
async def client() -> AsyncGenerator[Client]:
    async with run_cluster(controllers="definition-controller") as cluster:
        yield cluster.client("me")


async def test_expensive_policy_follows_its_failure_policy(client: Client) -> None:
    constraints: Any = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["configmaps"],
    }
    policy: Any = {
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [constraints]},
            "validations": [{"expression": EXPENSIVE}],
        },
    }
    await client.create(POLICIES, policy)
    bound: Any = {"policyName": "p", "validationActions": ["Deny"]}
    await client.create(BINDINGS, {"metadata": {"name": "b"}, "spec": bound})
    with pytest.raises(ApiStatusError, match=EXHAUSTED):
        await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "default")
    await client.patch(POLICIES, "p", {"spec": {"failurePolicy": "Ignore"}})
    await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "default")


async def test_expensive_rule_rejects_the_object(
    client: Client,
) -> None:
    result: Any = definition("example.com", "Thing", "things")
    schema = result["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["x-kubernetes-validations"] = [{"rule": EXPENSIVE}]
    await client.create(DEFINITIONS, result)
    with pytest.raises(ApiStatusError, match=f"'{EXHAUSTED}': no further validation rules"):
        await client.create(THINGS, {"metadata": {"name": "a"}}, "default")
