"""Names, labels, annotations and environment variables of a GPUWorkload's objects.

The API group is that of KGWE, the Kubernetes GPU Workload Enhancer: its manifests apply unchanged.

Names are built here and never parsed: labels identify what an object belongs to.
"""

MANAGER = "kilonova-gpu"
"""The value of `app.kubernetes.io/managed-by` on all objects that the controllers create."""

_PREFIX = "kgwe.nvidia.io/"
WORKLOAD = _PREFIX + "workload"
"""Label: the name of the GPUWorkload."""
INCARNATION = _PREFIX + "incarnation"
"""Label of a pod: `status.incarnation` of its workload at its creation."""
TEMPLATE_HASH = _PREFIX + "template-hash"
"""Annotation of a pod: the hash of the spec that it is made from."""
WORKLOAD_TYPE = _PREFIX + "workload-type"
"""Label of a pod: `spec.workloadType`."""
FRAMEWORK = _PREFIX + "framework"
"""Label of a pod: `spec.framework`."""
MEMORY_PROFILE = _PREFIX + "memory-profile"
"""Label of a pod: `spec.memoryProfile`."""

MAX_NAME_LENGTH = 47
"""So that the names of pods have at most 63 characters, and are host names."""


def pod(workload: str, rank: int, incarnation: int) -> str:
    """A pod. A new incarnation has other names, so that it need not wait for pods to terminate."""
    return hostname(workload, rank) + (f"-r{incarnation}" if incarnation else "")


def hostname(workload: str, rank: int) -> str:
    """The host name of the pods of a rank, the same in every incarnation."""
    return f"{workload}-{rank}"


def gang(workload: str) -> str:
    """The PodGang."""
    return f"gw-{workload}"


def service(workload: str) -> str:
    """The headless Service by which pods find each other; it begins with a letter, as it must."""
    return f"gw-{workload}"


def service_address(workload: str, rank: int, namespace: str) -> str:
    """The DNS name of the pod of a rank."""
    return f"{hostname(workload, rank)}.{service(workload)}.{namespace}.svc.cluster.local"


def priority_class(priority: int) -> str:
    """The PriorityClass of all workloads with a priority."""
    return f"kgwe-priority-{priority}"
