"""Names, labels, annotations and event reasons of inference engines.

Names are built here and never parsed: labels identify what an object belongs to.
"""

from typing import Literal

MANAGER = "kilonova-instances"
"""The value of `app.kubernetes.io/managed-by` on all objects that the controllers create."""

Role = Literal["agent", "conductor"]

_PREFIX = "supernova.groq.io/"
MODEL_INSTANCE = _PREFIX + "model-instance"
"""Label of pods, gangs and Services: the name of the InferenceEngineInstance."""
ROLE = _PREFIX + "role"
"""Label of a pod: `agent` or `conductor`."""
AGENT_INDEX = _PREFIX + "agent-index"
"""Label of an agent pod: its index, from 0."""
DEPLOYMENT = _PREFIX + "deployment"
"""Label of an instance: the name of its InferenceEngineDeployment."""
RELEASE = _PREFIX + "release"
"""Label of instances and pods: the name of the release that they run."""
TEMPLATE_HASH = _PREFIX + "template-hash"
"""Label of an instance of a deployment, and annotation of a pod: the hash of what it is made
from."""
ALLOCATION = _PREFIX + "allocation"
"""Label of a pod and a gang: how often its instance was relocated before it was created."""
ALLOCATION_RECORD = _PREFIX + "allocation-record"
"""Annotation of a gang: which pods the allocation consists of, and what was repaired (JSON)."""
GLOBAL_DEPLOYMENT = _PREFIX + "global-deployment"
"""Label of an InferenceEngineDeployment that a fleet manages: the name of the global
Deployment."""
FLEET_EPOCH = "fleet.kilonova.dev/epoch"
"""Annotation of what a fleet's member writes: the fencing epoch of the manager that decided it."""

AGENT_PODS_RECREATED = "AgentPodsRecreated"
"""Event: agent pods were recreated; the message has their number."""
ALLOCATION_FAILED = "AllocationFailed"
"""Event: the instance cannot be placed in its cluster."""
INSTANCE_RELOCATED = "InstanceRelocated"
"""Event: the instance was moved; the message says from where to where."""

HTTP_PORT = 8000
"""The port on which a conductor serves requests."""
JOIN_PORT = 8001
"""The port of a conductor that agents join."""

MAX_NAME_LENGTH = 48
"""Of an instance: so that the names of pods have at most 63 characters, and are host names."""
SUFFIX_LENGTH = 5
"""Of the names of a deployment's instances."""
MAX_DEPLOYMENT_NAME_LENGTH = MAX_NAME_LENGTH - SUFFIX_LENGTH - 1


def instance(deployment: str, suffix: str) -> str:
    """An instance of a deployment."""
    return f"{deployment}-{suffix}"


def revision(deployment: str, template_hash: str) -> str:
    """The ControllerRevision of a deployment's revision."""
    return f"ied-{deployment}-{template_hash}"


def agent_pod(instance: str, index: int, generation: int) -> str:
    """An agent pod. A replacement has another name, so that it need not wait for the termination
    of its predecessor."""
    return f"{instance}-agent-{index}" + (f"-r{generation}" if generation else "")


def conductor_pod(instance: str, generation: int) -> str:
    """A conductor pod."""
    return f"{instance}-conductor" + (f"-r{generation}" if generation else "")


def gang(instance: str, allocation: int) -> str:
    """The PodGang of an allocation of an instance: a relocation makes a new one."""
    return _of_allocation(instance, allocation)


def service(instance: str) -> str:
    """The Service of the conductor; it begins with a letter, as it must."""
    return _of_allocation(instance, 0)


def join_service(instance: str, allocation: int) -> str:
    """The Service of the conductor that the agents of an allocation join: after a relocation one of
    its own, since the former allocation may still serve requests."""
    return _of_allocation(instance, allocation)


def reservation(instance: str, allocation: int) -> str:
    """The Reservation of the capacity that the instance is to be relocated to."""
    return _of_allocation(instance, allocation)


def _of_allocation(instance: str, allocation: int) -> str:
    """The number is before the name: after it, it could be the end of another instance's name."""
    return f"iei{allocation or ''}-{instance}"
