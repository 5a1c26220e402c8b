"""Extended resources provided by devices of a DeviceClass instead of a device plugin (KEP-5004).

A DeviceClass may name an extended resource (`spec.extendedResourceName`); every class also has an
implicit one (`deviceclass.resource.kubernetes.io/CLASS`). For a pod that requests such a resource,
which no node advertises, the scheduler creates a ResourceClaim, as kube-scheduler does: one request
per container and resource. `status.extendedResourceClaimStatus` of the pod names the claim and maps
containers to its requests, for the kubelet.

If any node advertises the resource, it is requested from nodes as usual: the choice is made for the
whole cluster, and again when nodes start or stop advertising it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from kilonova.api.json import JsonObject
from kilonova.api.meta import intern_value
from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.convert.devices.claims import FindClaim, FindClass, convert_device_request
from kilonova.scheduler.convert.quantities import convert_quantities
from kilonova.scheduler.core.dra.claims import ClaimRequest
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.objects.core_v1 import Pod
from kilonova.scheduler.objects.resource_v1 import DeviceRequest, ExactDeviceRequest

EXTENDED_RESOURCE_CLAIM_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """Devices for one extended resource of one container."""

    container: str
    resource: str
    request: DeviceRequest


@dataclass(frozen=True, slots=True)
class ExtendedResourceClaim:
    """The claim for a pod's extended resources; `key` is NAMESPACE/NAME."""

    key: str
    requests: tuple[ContainerRequest, ...]

    def encode_claim(self, pod: Pod) -> JsonObject:
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
                "name": self._claim_name,
                "annotations": {EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"},
                "ownerReferences": [owner],
            },
            "spec": {
                "devices": {"requests": [_encode_request(each.request) for each in self.requests]}
            },
        }

    def encode_pod_status(self) -> JsonObject:
        """The pod status that refers to the claim."""
        mappings = [
            {
                "containerName": each.container,
                "resourceName": each.resource,
                "requestName": each.request.name,
            }
            for each in self.requests
        ]
        claim = {"resourceClaimName": self._claim_name, "requestMappings": mappings}
        return {"extendedResourceClaimStatus": claim}

    @property
    def _claim_name(self) -> str:
        return self.key.rpartition("/")[2]


def build_extended_resource_claim(
    pod: Pod, class_of: Callable[[str], str | None], is_advertised: Callable[[str], bool]
) -> ExtendedResourceClaim | None:
    """The claim for a pod's extended resources; None if devices provide none of them."""
    claim_status = pod.status.extended_resource_claim_status
    claimed = claim_status is not None and bool(claim_status.resource_claim_name)
    requests: list[ContainerRequest] = []
    for position, container in enumerate((*pod.spec.init_containers, *pod.spec.containers)):
        backed = (
            (resource, amount, class_)
            for resource, amount in sorted(convert_quantities(container.resources.requests).items())
            if amount > 0
            and (class_ := class_of(resource)) is not None
            and (claimed or not is_advertised(resource))
        )
        for number, (resource, amount, class_) in enumerate(backed):
            name = f"container-{position}-request-{number}"
            request = DeviceRequest(name, ExactDeviceRequest(class_, count=amount))
            requests.append(ContainerRequest(container.name, resource, request))
    if not requests:
        return None
    meta = pod.metadata
    name = f"{meta.name[:200].rstrip('-.')}-extended-resources-{meta.uid[:8]}"
    if claim_status is not None and claim_status.resource_claim_name:
        name = claim_status.resource_claim_name
    return ExtendedResourceClaim(f"{meta.namespace}/{name}", tuple(requests))


def with_extended_resource_claim(
    member: Member, extended: ExtendedResourceClaim, find_claim: FindClaim, find_class: FindClass
) -> Member:
    """A pod that requests devices instead of its extended resources."""
    resources = {each.resource for each in extended.requests}
    claim = find_claim(extended.key)
    is_allocated = claim is not None and claim.status.allocation is not None
    claim_request = ClaimRequest(
        tuple(
            (convert_device_request(extended.key, name, exact, find_class),)
            for each in extended.requests
            for name, exact in each.request.options()
        ),
        (),
        extended.key if is_allocated else "",
    )
    shape = member.shape
    shape = replace(
        shape,
        requests=tuple(each for each in shape.requests if each[0] not in resources),
        gpu=None if GPU in resources else shape.gpu,
        claims=(*shape.claims, claim_request),
    )
    return replace(member, shape=intern_value(shape), claims=(*member.claims, extended.key))


def _encode_request(request: DeviceRequest) -> JsonObject:
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
