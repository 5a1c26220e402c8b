"""The PodGang of a workload, and the Service by which its pods find each other. Pure."""

from kilonova.api.grove import names as grove_names
from kilonova.api.json import JsonObject
from kilonova.api.kgwe import GPUWorkload, names
from kilonova.api.scheduling_names import DURATION, KAI_QUEUE, PREEMPTIBLE, QUEUE
from kilonova.catalog.gpu_features import NVLINK_DOMAIN
from kilonova.gpu.controllers.gpuworkload.pods import build_labels, uses_own_priority
from kilonova.gpu.controllers.gpuworkload.split import Split
from kilonova.gpu.controllers.resources import WORKLOADS
from kilonova.kube.owner_references import build_owner_reference

"""The label of nodes whose GPUs are connected by NVLink across machines."""
_QUEUES = (QUEUE, KAI_QUEUE)


def build_gang(workload: GPUWorkload, split: Split, incarnation: int) -> JsonObject:
    """The gang: all pods, which start together."""
    known, spec = workload.metadata, workload.spec
    labels, annotations = build_labels(workload)
    queue = {key: known.labels[key] for key in _QUEUES if key in known.labels}
    annotations = {**annotations, PREEMPTIBLE: "true" if spec.may_be_preempted else "false"}
    if spec.expected_duration is not None:
        annotations[DURATION] = spec.expected_duration
    pods = [names.pod(known.name, rank, incarnation) for rank in range(split.pods)]
    gang_spec: JsonObject = {
        "podgroups": [
            {
                "name": known.name,
                "podReferences": [
                    {"namespace": known.namespace, "name": each} for each in sorted(pods)
                ],
                "minReplicas": split.pods,
            }
        ]
    }
    if uses_own_priority(spec):
        gang_spec["priorityClassName"] = names.priority_class(spec.priority)
    if split.pods > 1 and (constraint := _build_constraint(workload)) is not None:
        gang_spec["topologyConstraint"] = {"packConstraint": constraint}
    return {
        "metadata": {
            "name": names.gang(known.name),
            "namespace": known.namespace,
            "labels": {**queue, **labels},
            "annotations": annotations,
            "ownerReferences": [build_owner_reference(WORKLOADS, known)],
        },
        "spec": gang_spec,
    }


def build_service(workload: GPUWorkload) -> JsonObject:
    """The headless Service: pods have names before they are ready, to find each other."""
    known = workload.metadata
    labels, annotations = build_labels(workload)
    metadata: JsonObject = {
        "name": names.service(known.name),
        "namespace": known.namespace,
        "labels": labels,
        "ownerReferences": [build_owner_reference(WORKLOADS, known)],
    }
    return {
        "metadata": {**metadata, "annotations": annotations} if annotations else metadata,
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {
                grove_names.MANAGED_BY: names.MANAGER,
                names.WORKLOAD: known.name,
            },
        },
    }


def build_priority_class(priority: int) -> JsonObject:
    """The PriorityClass of all workloads with a priority. It is never deleted: pods may have it."""
    return {
        "metadata": {
            "name": names.priority_class(priority),
            "labels": {grove_names.MANAGED_BY: names.MANAGER},
        },
        "value": priority,
        "description": f"GPUWorkloads of priority {priority}.",
    }


def _build_constraint(workload: GPUWorkload) -> JsonObject | None:
    """Several nodes are connected by NVLink only within an NVLink domain."""
    match workload.spec.gpu_requirements.preference:
        case "NVLinkRequired":
            return {"required": NVLINK_DOMAIN}
        case "NVLinkOptimal":
            return {"preferred": NVLINK_DOMAIN}
        case _:
            return None
