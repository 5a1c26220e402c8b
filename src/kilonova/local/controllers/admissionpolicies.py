"""ValidatingAdmissionPolicies: that they have been seen.

Kubernetes also checks there whether expressions fit the schemas of the kinds they are about. Here
they are compiled when a policy is written; what a type would tell is told when they are run.
"""

from collections.abc import Iterable

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import Client, Controller, Part, Reflector, Resource, Watch
from kilonova.kube.identity import Key
from kilonova.local.controllers.workshop import Workshop

_NAME = "validatingadmissionpolicy-status-controller"


class PolicyStatus(msgspec.Struct, frozen=True, rename="camel"):
    """Which state of a policy has been seen."""

    observed_generation: int = 0


class Policy(msgspec.Struct, frozen=True):
    """The fields of a ValidatingAdmissionPolicy that this controller uses."""

    metadata: Metadata
    status: PolicyStatus = PolicyStatus()


POLICIES = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    False,
    Policy,
)


def policy_status_parts(workshop: Workshop) -> Iterable[Part]:
    """validatingadmissionpolicy-status-controller."""
    policies = Reflector(workshop.account(_NAME), POLICIES)
    return [policies, PolicyStatuses(workshop.account(_NAME), policies).controller]


class PolicyStatuses:
    """Notes in each policy the generation that was seen last."""

    def __init__(self, client: Client, policies: Reflector[Policy]) -> None:
        self._client = client
        self._policies = policies
        self.controller = Controller(_NAME, self._reconcile, [Watch(policies)])

    async def _reconcile(self, key: Key) -> None:
        policy = self._policies.store.get(key)
        if policy is None or policy.metadata.generation <= policy.status.observed_generation:
            return
        status: JsonObject = {"observedGeneration": policy.metadata.generation, "typeChecking": {}}
        await self._client.apply(
            POLICIES, policy.metadata.name, {"status": status}, subresource="status"
        )
