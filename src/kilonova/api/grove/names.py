"""Every name, label, annotation, environment variable and finalizer of `grove.io`.

Names are built here and never parsed: labels identify what an object belongs to.
"""

import hashlib

# Recommended labels of Kubernetes.
MANAGED_BY = "app.kubernetes.io/managed-by"
PART_OF = "app.kubernetes.io/part-of"
NAME = "app.kubernetes.io/name"
COMPONENT = "app.kubernetes.io/component"
OPERATOR = "grove-operator"
"""The value of `managed-by` on all objects that the operator creates."""

RESERVED_PREFIX = "grove.io/"
"""Labels and annotations with this prefix belong to the operator, except for a few that users
write."""

# Grove's labels.
POD_CLIQUE = "grove.io/podclique"
POD_GANG = "grove.io/podgang"
BASE_POD_GANG = "grove.io/base-podgang"
"""Only on cliques and pods of scaled gangs: the base gang, which is scheduled before theirs."""
SET_REPLICA_INDEX = "grove.io/podcliqueset-replica-index"
SCALING_GROUP = "grove.io/podcliquescalinggroup"
SCALING_GROUP_REPLICA_INDEX = "grove.io/podcliquescalinggroup-replica-index"
POD_INDEX = "grove.io/podclique-pod-index"
SCALING_GROUP_POD_INDEX = "grove.io/podcliquescalinggroup-pod-index"
"""Numbers all pods of one replica of a scaling group, in the order of its cliques."""
POD_TEMPLATE_HASH = "grove.io/pod-template-hash"
GENERATION_HASH = "grove.io/podcliqueset-generation-hash"
SCHEDULER_NAME = "grove.io/scheduler-name"

# Annotations.
PROTECTION_DISABLED = "grove.io/disable-managed-resource-protection"
TOPOLOGY_NAME = "grove.io/topology-name"
MNNVL_GROUP = "grove.io/mnnvl-group"
"""An annotation on the user's objects, a label on the ComputeDomain."""
NO_MNNVL_GROUP = "none"
"""The value that excludes a clique or scaling group from any group."""
INCARNATION = "grove.io/incarnation"
"""How often all pods of a clique were restarted; pods carry the number at their creation."""
STARTUP_RELEASED = "grove.io/startup-released"
"""On a pod: its startup dependencies have started."""
COPIED_KEYS = "grove.io/copied"
"""On gangs and scaling groups: keys of the labels and annotations propagated from their set."""

POD_GANG_GATE = "grove.io/podgang-pending-creation"
SET_FINALIZER = "grove.io/podcliqueset.grove.io"
CLIQUE_FINALIZER = "grove.io/podclique.grove.io"
SCALING_GROUP_FINALIZER = "grove.io/podcliquescalinggroup.grove.io"
COMPUTE_DOMAIN_FINALIZER = "grove.io/computedomain-finalizer"

# The init container that waits for other cliques.
STARTUP_CONTAINER = "grove-initc"
POD_INFO_VOLUME = "pod-info-vol"
POD_INFO_PATH = "/var/grove/pod-info"
RELEASED_FILE = "released"
MNNVL_CLAIM = "mnnvl-claim"

# Components: the purpose of an object.
HEADLESS_SERVICE_COMPONENT = "pcs-headless-service"
SCALING_GROUP_COMPONENT = "pcs-podcliquescalinggroup"
HPA_COMPONENT = "pcs-hpa"
POD_GANG_COMPONENT = "podgang"
SET_CLIQUE_COMPONENT = "pcs-podclique"
GROUP_CLIQUE_COMPONENT = "pcsg-podclique"
RESOURCE_CLAIM_COMPONENT = "resource-claim"
COMPUTE_DOMAIN_COMPONENT = "pcs-computedomain"

# Environment variables of every container.
ENV_SET_NAME = "GROVE_PCS_NAME"
ENV_SET_INDEX = "GROVE_PCS_INDEX"
ENV_CLIQUE_NAME = "GROVE_PCLQ_NAME"
ENV_HEADLESS_SERVICE = "GROVE_HEADLESS_SERVICE"
ENV_POD_INDEX = "GROVE_PCLQ_POD_INDEX"
ENV_GROUP_NAME = "GROVE_PCSG_NAME"
ENV_GROUP_INDEX = "GROVE_PCSG_INDEX"
ENV_GROUP_PODS = "GROVE_PCSG_TEMPLATE_NUM_PODS"
ENV_GROUP_POD_INDEX = "GROVE_PCSG_POD_INDEX"

MAX_COMBINED_NAME_LENGTH = 45
"""The maximum combined length of set, scaling group and clique names, so that generated names fit
into 63 characters."""

MAX_LABEL_LENGTH = 63
"""The maximum length of a label value, and of a host name."""

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_SUFFIXES = len(_SUFFIX_LETTERS) ** _SUFFIX_LENGTH
_SUFFIX_MULTIPLIER = 8_675_309
"""Coprime to the number of suffixes, so that multiplying by it is a bijection."""
_MAX_INDEXES = 65_536
_HASH_LENGTH = 8


def replica(set_name: str, index: int) -> str:
    """The headless Service of a set's replica, and its base gang."""
    return f"{set_name}-{index}"


def service_address(set_name: str, index: int, namespace: str) -> str:
    """The DNS name under which the pods of a replica find each other."""
    return f"{replica(set_name, index)}.{namespace}.svc.cluster.local"


def clique(set_name: str, index: int, clique_name: str) -> str:
    """A PodClique outside of scaling groups."""
    return f"{set_name}-{index}-{clique_name}"


def scaling_group(set_name: str, index: int, group_name: str) -> str:
    """A PodCliqueScalingGroup."""
    return f"{set_name}-{index}-{group_name}"


def member_clique(group: str, group_index: int, clique_name: str) -> str:
    """A PodClique of a scaling group's replica; `group` is the group's full name."""
    return f"{group}-{group_index}-{clique_name}"


def scaled_gang(group: str, group_index: int, min_available: int) -> str:
    """The gang of a scaling group's replica beyond minAvailable."""
    return f"{group}-{group_index - min_available}"


def group_replica(group: str, group_index: int) -> str:
    """The topology constraint on all cliques of one replica of a scaling group."""
    return f"{group}-{group_index}"


def pod(clique_name: str, index: int, attempt: int) -> str:
    """A pod; the attempt is incremented while a pod of the previous name still terminates.

    Derived, not random: creating the same pod twice fails with AlreadyExists. No two indices of a
    clique share a name, as they could if each had a hash.
    """
    start = int.from_bytes(hashlib.sha256(clique_name.encode()).digest()[:8], "big")
    number = (start + (index + attempt * _MAX_INDEXES) * _SUFFIX_MULTIPLIER) % _SUFFIXES
    letters: list[str] = []
    for _ in range(_SUFFIX_LENGTH):
        number, place = divmod(number, len(_SUFFIX_LETTERS))
        letters.append(_SUFFIX_LETTERS[place])
    return f"{clique_name}-{''.join(letters)}"


def hostname(clique_name: str, index: int) -> str:
    """A pod's host name, the same for every pod of this index."""
    return f"{clique_name}-{index}"


def shared_claim(owner: str, template: str) -> str:
    """A ResourceClaim for all replicas of its owner: a set, a scaling group or a clique."""
    return f"{owner}-all-{template}"


def replica_claim(owner: str, index: int, template: str) -> str:
    """A ResourceClaim for one replica of its owner."""
    return f"{owner}-{index}-{template}"


def compute_domain(set_name: str, index: int, group: str) -> str:
    """A ComputeDomain, and its claim template."""
    return f"{set_name}-{index}-{group}"


def revision(set_name: str, digest: str) -> str:
    """A ControllerRevision: an earlier version of the templates of a set."""
    return f"{set_name}-{digest}"


def label_value(name: str) -> str:
    """A name as a label value: one that is too long is truncated and ends in a hash of the
    whole."""
    return name if len(name) <= MAX_LABEL_LENGTH else _truncate_with_hash(name)


def pod_claim_name(claim: str) -> str:
    """The name of a ResourceClaim inside a pod: its own name, unless that has dots or is too
    long."""
    return (
        claim if len(claim) <= MAX_LABEL_LENGTH and "." not in claim else _truncate_with_hash(claim)
    )


def _truncate_with_hash(name: str) -> str:
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH_LENGTH]
    prefix = name[: MAX_LABEL_LENGTH - _HASH_LENGTH - 1].replace(".", "-").rstrip("-")
    return f"{prefix}-{digest}"
