"""Extended resources that devices of a DeviceClass provide, not a device plug-in.

A DeviceClass may name an extended resource (`spec.extendedResourceName`); every class also has one
implicitly (`deviceclass.resource.kubernetes.io/CLASS`). A pod that requests such a resource, which
no node advertises, gets a ResourceClaim of its own from the scheduler, as with kube-scheduler: one
request for each container and resource. `status.extendedResourceClaimStatus` of the pod names the
claim and maps containers to its requests, for the kubelet.

Where some node advertises the resource, it is requested from nodes as ever: the choice is made for
the cluster, not for each node, and anew when nodes begin or cease to advertise it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from kilonova.api.json import JsonObject
from kilonova.api.meta import shared
from kilonova.scheduler.core.claims import ClaimAsk
from kilonova.scheduler.core.gangs import Member
from kilonova.scheduler.core.snapshot import GPU
from kilonova.scheduler.deviceobjects import DeviceRequest, ExactRequest
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.amounts import amounts_of
from kilonova.scheduler.reading.claims import FindClaim, FindClass, option_of

ANNOTATION = "resource.kubernetes.io/extended-resource-claim"


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """Devices for one extended resource of one container."""

    container: str
    resource: str
    request: DeviceRequest


@dataclass(frozen=True, slots=True)
class ExtendedClaim:
    """The claim that a pod has for its extended resources; `key` is NAMESPACE/NAME."""

    key: str
    requests: tuple[ContainerRequest, ...]

    def body(self, pod: Pod) -> JsonObject:
        """The ResourceClaim to create."""
        meta = pod.metadata
        owner: JsonObject = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": meta.name,
            "uid": meta.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        return {
            "metadata": {
                "name": self._name,
                "annotations": {ANNOTATION: "true"},
                "ownerReferences": [owner],
            },
            "spec": {"devices": {"requests": [_wire(each.request) for each in self.requests]}},
        }

    def pod_status(self) -> JsonObject:
        """What the pod says of it."""
        mappings = [
            {
                "containerName": each.container,
                "resourceName": each.resource,
                "requestName": each.request.name,
            }
            for each in self.requests
        ]
        claim = {"resourceClaimName": self._name, "requestMappings": mappings}
        return {"extendedResourceClaimStatus": claim}

    @property
    def _name(self) -> str:
        return self.key.rpartition("/")[2]


def extended_claim_of(
    pod: Pod, class_of: Callable[[str], str | None], is_advertised: Callable[[str], bool]
) -> ExtendedClaim | None:
    """The claim for a pod's extended resources; None if it requests none that devices provide."""
    known = pod.status.extended_resource_claim_status
    claimed = known is not None and bool(known.resource_claim_name)
    found: list[ContainerRequest] = []
    for position, container in enumerate((*pod.spec.init_containers, *pod.spec.containers)):
        backed = (
            (resource, amount, class_)
            for resource, amount in sorted(amounts_of(container.resources.requests).items())
            if amount > 0
            and (class_ := class_of(resource)) is not None
            and (claimed or not is_advertised(resource))
        )
        for number, (resource, amount, class_) in enumerate(backed):
            name = f"container-{position}-request-{number}"
            request = DeviceRequest(name, ExactRequest(class_, count=amount))
            found.append(ContainerRequest(container.name, resource, request))
    if not found:
        return None
    meta = pod.metadata
    name = f"{meta.name[:200].rstrip('-.')}-extended-resources-{meta.uid[:8]}"
    if known is not None and known.resource_claim_name:
        name = known.resource_claim_name
    return ExtendedClaim(f"{meta.namespace}/{name}", tuple(found))


def with_extended_claim(
    member: Member, extended: ExtendedClaim, find: FindClaim, find_class: FindClass
) -> Member:
    """A pod that asks for devices where it requests extended resources of them."""
    resources = {each.resource for each in extended.requests}
    claim = find(extended.key)
    has = claim is not None and claim.status.allocation is not None
    ask = ClaimAsk(
        tuple(
            (option_of(extended.key, name, exact, find_class),)
            for each in extended.requests
            for name, exact in each.request.options()
        ),
        (),
        extended.key if has else "",
    )
    shape = member.shape
    shape = replace(
        shape,
        requests=tuple(each for each in shape.requests if each[0] not in resources),
        gpu=None if GPU in resources else shape.gpu,
        claims=(*shape.claims, ask),
    )
    return replace(member, shape=shared(shape), claims=(*member.claims, extended.key))


def _wire(request: DeviceRequest) -> JsonObject:
    exact = request.exactly
    assert exact is not None
    return {
        "name": request.name,
        "exactly": {
            "deviceClassName": exact.device_class_name,
            "allocationMode": exact.allocation_mode,
            "count": exact.count,
        },
    }
