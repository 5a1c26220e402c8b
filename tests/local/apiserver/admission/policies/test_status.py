"""The status of ValidatingAdmissionPolicies."""

from typing import Any

import pytest

from kilonova.kube.client.resource import unstructured_resource
from tests.local.embedded_cluster import advance_time, run_cluster, wait_for_condition

POLICIES = unstructured_resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    False,
)


@pytest.mark.looptime
async def test_policy_status_has_the_observed_generation() -> None:
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
    async with run_cluster(controllers="validatingadmissionpolicy-status-controller") as cluster:
        client = cluster.client("me")

        async def observed(generation: int) -> None:
            async def so() -> bool:
                policy = await client.get(POLICIES, "p")
                return policy["status"].get("observedGeneration") == generation

            await wait_for_condition(so)

        await client.create(POLICIES, {"metadata": {"name": "p"}, "spec": spec})
        await observed(1)
        change: Any = {"spec": {"validations": [{"expression": "1 == 1"}]}}
        await client.patch(POLICIES, "p", change)
        await observed(2)
        version = (await client.get(POLICIES, "p"))["metadata"]["resourceVersion"]
        await advance_time()
        assert (await client.get(POLICIES, "p"))["metadata"]["resourceVersion"] == version
