"""The status of ValidatingAdmissionPolicies."""

from typing import Any

import pytest

from kilonova.kube.resource import plain
from tests.local.embedded_cluster import eventually, running, settle

POLICIES = plain(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    False,
)


@pytest.mark.looptime
async def test_a_policy_says_which_state_of_it_was_seen() -> None:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["configmaps"],
    }
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "true"}],
    }
    async with running(controllers="validatingadmissionpolicy-status-controller") as cluster:
        client = cluster.client("me")

        async def seen(generation: int) -> None:
            async def so() -> bool:
                policy = await client.get(POLICIES, "p")
                return policy["status"].get("observedGeneration") == generation

            await eventually(so)

        await client.create(POLICIES, {"metadata": {"name": "p"}, "spec": spec})
        await seen(1)
        change: Any = {"spec": {"validations": [{"expression": "1 == 1"}]}}
        await client.patch(POLICIES, "p", change)
        await seen(2)
        version = (await client.get(POLICIES, "p"))["metadata"]["resourceVersion"]
        await settle()
        assert (await client.get(POLICIES, "p"))["metadata"]["resourceVersion"] == version
