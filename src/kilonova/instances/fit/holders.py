"""Whose pods hold accelerators: instances, other workloads, gangs, single pods. Pure."""

from dataclasses import dataclass

import msgspec

from kilonova.api.inference_engine import names
from kilonova.api.pods.workload_owner import POD, Owned, OwnerLabels, find_labelled_workload
from kilonova.scheduler.convert.gangs.podgangs import gang_object_key, is_single_pod_gang
from kilonova.scheduler.convert.reservations.reserved_gangs import is_reservation_gang
from kilonova.scheduler.core.model.pod_placement import PodPlacement

_JOB_NAME = "batch.kubernetes.io/job-name"


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds an accelerator: `name` is NAMESPACE/NAME."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


def find_holder(placement: PodPlacement) -> Holder:
    """The instance of a pod, else its workload, its gang, or the pod itself."""
    labels = placement.member.labels
    namespace, _, pod = placement.pod.partition("/")
    instance = labels.get(names.MODEL_INSTANCE)
    if instance:
        return Holder("InferenceEngineInstance", f"{namespace}/{instance}")
    if is_reservation_gang(placement.gang):
        return Holder("Reservation", gang_object_key(placement.gang))
    known = msgspec.convert(dict(labels), OwnerLabels)
    workload = find_labelled_workload(Owned(POD, namespace, pod, known, None))
    if workload is not None:
        return Holder(workload.kind.kind, f"{workload.namespace}/{workload.name}")
    job = labels.get(_JOB_NAME)
    if job:
        return Holder("Job", f"{namespace}/{job}")
    if placement.gang and not is_single_pod_gang(placement.gang):
        return Holder("PodGang", gang_object_key(placement.gang))
    return Holder("Pod", placement.pod)
