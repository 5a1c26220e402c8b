"""The workload of a pod: the object at the top that a person made, and that is billed for the pod.

The label `kilonova.dev/workload` names it, `KIND_NAME`: `PodCliqueSet_train`, and with the API
group where the kind is not a well-known one, `InferenceService.serving.kilonova.dev_chat`. A
controller that makes pods, or objects that make pods, sets it to the workload of the object that
they are made for (`workload_metadata`), so it is passed down however many objects there are in
between. A value that is too long for a label is truncated, and an annotation of the same key has it
in full.

Without the label a pod belongs to the object that controls it: its Deployment, Job, StatefulSet and
so on, or to the JobSet or LeaderWorkerSet that its labels name; without a controller, to itself.
Console, commands and cost all ask `find_workload`, so that they agree.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import msgspec

from kilonova.api.group_kinds import GroupKind, get_well_known
from kilonova.api.grove import names
from kilonova.api.meta import Metadata, OwnerReference

WORKLOAD = "kilonova.dev/workload"

POD = GroupKind("", "Pod")
SET = get_well_known("PodCliqueSet")
CLIQUE = get_well_known("PodClique")
SCALING_GROUP = get_well_known("PodCliqueScalingGroup")
GANG = get_well_known("PodGang")
DEPLOYMENT = get_well_known("Deployment")
REPLICA_SET = get_well_known("ReplicaSet")
STATEFUL_SET = get_well_known("StatefulSet")
JOB = get_well_known("Job")
JOB_SET = get_well_known("JobSet")
LEADER_WORKER_SET = get_well_known("LeaderWorkerSet")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:_-]*", re.ASCII)


class Workload(NamedTuple):
    """An object that owns pods."""

    kind: GroupKind
    namespace: str
    name: str

    @property
    def id(self) -> str:
        """`Kind/namespace/name`: `Job/team/train`, `Deployment.example.com/team/web`."""
        return f"{self.kind}/{self.namespace}/{self.name}"


class OwnerLabels(msgspec.Struct, frozen=True, gc=False):
    """The labels of an object that name its workload."""

    workload: str = msgspec.field(default="", name=WORKLOAD)
    managed_by: str = msgspec.field(default="", name=names.MANAGED_BY)
    part_of: str = msgspec.field(default="", name=names.PART_OF)
    clique: str = msgspec.field(default="", name=names.POD_CLIQUE)
    scaling_group: str = msgspec.field(default="", name=names.SCALING_GROUP)
    template_hash: str = msgspec.field(default="", name="pod-template-hash")
    job_set: str = msgspec.field(default="", name="jobset.sigs.k8s.io/jobset-name")
    leader_worker_set: str = msgspec.field(default="", name="leaderworkerset.sigs.k8s.io/name")

    @property
    def pod_clique_set(self) -> str:
        """The PodCliqueSet that the operator's labels name; empty if none."""
        return self.part_of if self.managed_by == names.OPERATOR else ""


class Owned(NamedTuple):
    """What is known about the owners of a pod, or of an object that makes pods."""

    kind: GroupKind
    namespace: str
    name: str
    labels: OwnerLabels
    controller: OwnerReference | None
    workload_annotation: str = ""
    """The annotation `kilonova.dev/workload`."""

    @classmethod
    def from_metadata(cls, kind: GroupKind, metadata: Metadata) -> "Owned":
        """From complete metadata."""
        labels = msgspec.convert(metadata.labels, OwnerLabels)
        annotation = metadata.annotations.get(WORKLOAD, "")
        space, name = metadata.namespace, metadata.name
        return cls(kind, space, name, labels, metadata.controller, annotation)


def find_workload(owned: Owned) -> Workload:
    """The workload of a pod; of an object that makes pods, the workload of these."""
    return (
        find_labelled_workload(owned)
        or _find_controller(owned)
        or Workload(owned.kind, owned.namespace, owned.name)
    )


def find_labelled_workload(owned: Owned) -> Workload | None:
    """The workload that labels name, None if they name none."""
    labels, namespace = owned.labels, owned.namespace
    found = _parse(labels.workload, owned.workload_annotation)
    if found is not None:
        kind, name = found
        return Workload(kind, namespace, name)
    named = (
        (SET, labels.pod_clique_set),
        (JOB_SET, labels.job_set),
        (LEADER_WORKER_SET, labels.leader_worker_set),
    )
    return next((Workload(kind, namespace, name) for kind, name in named if name), None)


def list_owners(owned: Owned, references: tuple[OwnerReference, ...]) -> Iterator[Workload]:
    """Every known owner of a pod or gang, direct or indirect, in no particular order."""
    namespace, labels = owned.namespace, owned.labels
    for each in references:
        kind = GroupKind.from_api_version(each.api_version, each.kind)
        yield Workload(kind, namespace, each.name)
        if (deployment := _deployment_name(kind, each.name, labels)) is not None:
            yield Workload(DEPLOYMENT, namespace, deployment)
    named = (
        (SET, labels.pod_clique_set),
        (CLIQUE, labels.clique),
        (SCALING_GROUP, labels.scaling_group),
        (JOB_SET, labels.job_set),
        (LEADER_WORKER_SET, labels.leader_worker_set),
    )
    yield from (Workload(kind, namespace, name) for kind, name in named if name)
    if (top := find_labelled_workload(owned)) is not None:
        yield top


def workload_metadata(workload: Workload) -> tuple[dict[str, str], dict[str, str]]:
    """The labels and annotations by which an object names its workload."""
    text = f"{workload.kind}_{workload.name}"
    value = names.label_value(text)
    return {WORKLOAD: value}, {} if value == text else {WORKLOAD: text}


@lru_cache(maxsize=4096)
def _parse(label: str, annotation: str) -> tuple[GroupKind, str] | None:
    """Kind and name; None if the label is missing or no name of a workload."""
    is_truncated = annotation and names.label_value(annotation) == label
    kind_text, _, name = (annotation if is_truncated else label).partition("_")
    kind = GroupKind.parse(kind_text)
    return None if kind is None or not _NAME.fullmatch(name) else (kind, name)


def _find_controller(owned: Owned) -> Workload | None:
    owner = owned.controller
    if owner is None or not _is_valid(owner):
        return None
    kind = GroupKind.from_api_version(owner.api_version, owner.kind)
    deployment = _deployment_name(kind, owner.name, owned.labels)
    if deployment is not None:
        return Workload(DEPLOYMENT, owned.namespace, deployment)
    return Workload(kind, owned.namespace, owner.name)


@lru_cache(maxsize=4096)
def _is_valid(owner: OwnerReference) -> bool:
    """Owner references are not validated: an invalid kind or name counts as no owner."""
    kind = GroupKind.from_api_version(owner.api_version, owner.kind)
    return GroupKind.parse(str(kind)) == kind and bool(_NAME.fullmatch(owner.name))


def _deployment_name(kind: GroupKind, name: str, labels: OwnerLabels) -> str | None:
    """The Deployment of a ReplicaSet, by the hash in its name; None if there is none."""
    suffix = f"-{labels.template_hash}"
    is_made = kind == REPLICA_SET and labels.template_hash and name.endswith(suffix)
    return name.removesuffix(suffix) if is_made else None
