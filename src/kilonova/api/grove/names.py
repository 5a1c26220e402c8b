"""Every name, label, annotation, environment variable and finalizer of `grove.io`, in one place.

Names are made here and never taken apart: what an object belongs to is in its labels.
"""

import hashlib

# Labels that many tools know.
MANAGED_BY = "app.kubernetes.io/managed-by"
PART_OF = "app.kubernetes.io/part-of"
NAME = "app.kubernetes.io/name"
COMPONENT = "app.kubernetes.io/component"
OPERATOR = "grove-operator"
"""The value of `managed-by` on all that the operator makes."""

RESERVED_PREFIX = "grove.io/"
"""Labels and annotations that begin so are the operator's, but for a few that people write."""

# Grove's labels.
POD_CLIQUE = "grove.io/podclique"
POD_GANG = "grove.io/podgang"
BASE_POD_GANG = "grove.io/base-podgang"
"""Only on cliques and pods of scaled gangs: the gang that is placed before theirs."""
SET_REPLICA_INDEX = "grove.io/podcliqueset-replica-index"
SCALING_GROUP = "grove.io/podcliquescalinggroup"
SCALING_GROUP_REPLICA_INDEX = "grove.io/podcliquescalinggroup-replica-index"
POD_INDEX = "grove.io/podclique-pod-index"
SCALING_GROUP_POD_INDEX = "grove.io/podcliquescalinggroup-pod-index"
"""Counts through all pods of one replica of a scaling group, in the order of its cliques."""
POD_TEMPLATE_HASH = "grove.io/pod-template-hash"
GENERATION_HASH = "grove.io/podcliqueset-generation-hash"
SCHEDULER_NAME = "grove.io/scheduler-name"

# Annotations.
UNPROTECTED = "grove.io/disable-managed-resource-protection"
TOPOLOGY_NAME = "grove.io/topology-name"
MNNVL_GROUP = "grove.io/mnnvl-group"
"""An annotation of what people write, a label of the ComputeDomain."""
NO_MNNVL_GROUP = "none"
"""The value by which a part of a set says that it is in no group."""
INCARNATION = "grove.io/incarnation"
"""How often a clique's pods were all started anew; pods carry the number they were born with."""
RELEASED = "grove.io/startup-released"
"""On a pod: what it waited for has started."""
NOTE = "grove.io/copied"
"""On gangs and scaling groups: keys of labels and annotations that they have from their set."""

GATE = "grove.io/podgang-pending-creation"
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

# Components: what an object is for.
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

LONGEST_PARTS = 45
"""Set, scaling group and clique names together: what is added to them has room in 63."""

LONGEST_LABEL = 63
"""The longest value of a label, and the longest host name."""

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_SUFFIXES = len(_SUFFIX_LETTERS) ** _SUFFIX_LENGTH
_SCATTER = 8_675_309
"""Has no factor in common with the number of suffixes, so that multiplying by it loses none."""
_INDEXES = 65_536
_HASH_LENGTH = 8


def replica(set_name: str, index: int) -> str:
    """The headless Service of a set's replica, and its base gang."""
    return f"{set_name}-{index}"


def service_address(set_name: str, index: int, namespace: str) -> str:
    """Under which the pods of a replica find each other."""
    return f"{replica(set_name, index)}.{namespace}.svc.cluster.local"


def clique(set_name: str, index: int, clique_name: str) -> str:
    """A PodClique that stands alone."""
    return f"{set_name}-{index}-{clique_name}"


def scaling_group(set_name: str, index: int, group_name: str) -> str:
    """A PodCliqueScalingGroup."""
    return f"{set_name}-{index}-{group_name}"


def member_clique(group: str, group_index: int, clique_name: str) -> str:
    """A PodClique of a scaling group's replica; `group` is the group's full name."""
    return f"{group}-{group_index}-{clique_name}"


def scaled_gang(group: str, group_index: int, min_available: int) -> str:
    """The gang of a replica that a scaling group has beyond those it must have."""
    return f"{group}-{group_index - min_available}"


def group_replica(group: str, group_index: int) -> str:
    """The topology constraint on all cliques of one replica of a scaling group."""
    return f"{group}-{group_index}"


def pod(clique_name: str, index: int, attempt: int) -> str:
    """A pod; the next attempt is for when a pod of the last name still ends.

    Worked out, not drawn: whoever makes the same pod twice is told that it exists. No two indexes
    of a clique share a name, as they well might if each had a hash.
    """
    start = int.from_bytes(hashlib.sha256(clique_name.encode()).digest()[:8], "big")
    number = (start + (index + attempt * _INDEXES) * _SCATTER) % _SUFFIXES
    letters: list[str] = []
    for _ in range(_SUFFIX_LENGTH):
        number, place = divmod(number, len(_SUFFIX_LETTERS))
        letters.append(_SUFFIX_LETTERS[place])
    return f"{clique_name}-{''.join(letters)}"


def hostname(clique_name: str, index: int) -> str:
    """A pod's host name, the same for every pod that ever has this index."""
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
    """A ControllerRevision: the templates of a set as they once were."""
    return f"{set_name}-{digest}"


def label_value(name: str) -> str:
    """A name as it may stand in a label: one that is too long ends in a hash of the whole."""
    return name if len(name) <= LONGEST_LABEL else _cut(name)


def claim_in_pod(claim: str) -> str:
    """What a pod calls a ResourceClaim: its name, where that has no dots and is not too long."""
    return claim if len(claim) <= LONGEST_LABEL and "." not in claim else _cut(claim)


def _cut(name: str) -> str:
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH_LENGTH]
    kept = name[: LONGEST_LABEL - _HASH_LENGTH - 1].replace(".", "-").rstrip("-")
    return f"{kept}-{digest}"
