"""The status of ValidatingAdmissionPolicies: observedGeneration.

Kubernetes also type-checks expressions here against the schemas of the kinds they match. In the
embedded cluster expressions are compiled when a policy is written; type errors are reported when
they are evaluated.
"""

from collections.abc import Iterable

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import Client, Controller, Reflector, Resource, Runnable, Watch
from kilonova.kube.informers.object_keys import Key
from kilonova.local.controllers.context import ControllerContext

_NAME = "validatingadmissionpolicy-status-controller"


class ValidatingAdmissionPolicyStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The observed generation of a policy."""

    observed_generation: int = 0


class ValidatingAdmissionPolicy(msgspec.Struct, frozen=True):
    """The fields of a ValidatingAdmissionPolicy that this controller uses."""

    metadata: Metadata
    status: ValidatingAdmissionPolicyStatus = ValidatingAdmissionPolicyStatus()


POLICIES = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    False,
    ValidatingAdmissionPolicy,
)


def policy_status_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """validatingadmissionpolicy-status-controller."""
    policies = Reflector(context.client_for(_NAME), POLICIES)
    return [policies, PolicyStatusController(context.client_for(_NAME), policies).controller]


class PolicyStatusController:
    """Writes the observed generation of each policy."""

    def __init__(self, client: Client, policies: Reflector[ValidatingAdmissionPolicy]) -> None:
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
