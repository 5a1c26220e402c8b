"""What makes pods, as rows: it is there also while it has none. Pure."""

from collections.abc import Callable

import msgspec

from kilonova.api.meta import Condition, Metadata
from kilonova.console.objects import PodLabels
from kilonova.console.podrows import queue_of
from kilonova.console.podstate import condition_of, is_true
from kilonova.console.rows import Row, SetRow, moment
from kilonova.kube import Resource

SET = "PodCliqueSet"


class OwnerRow(Row, frozen=True, gc=False, kw_only=True):
    """A set, Deployment, StatefulSet or Job. `id` is what its pods name as their workload."""

    status: str
    """How it is while it has no pods."""
    why: str = ""
    queue: str = ""
    updating: bool = False
    created: float | None = None


class _TemplateMeta(msgspec.Struct, frozen=True, gc=False):
    labels: PodLabels = PodLabels()


class _Template(msgspec.Struct, frozen=True, gc=False):
    metadata: _TemplateMeta = _TemplateMeta()


class _Spec(msgspec.Struct, frozen=True, gc=False):
    replicas: int = 1
    parallelism: int = 1
    suspend: bool = False
    template: _Template = _Template()


class _Status(msgspec.Struct, frozen=True, gc=False):
    conditions: tuple[Condition, ...] = ()


class Owner(msgspec.Struct, gc=False):
    """A Deployment, StatefulSet or Job: what is shown of it."""

    metadata: Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True, Owner)
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet", True, Owner)
JOBS = Resource("batch", "v1", "jobs", "Job", True, Owner)


def owner_row(kind: str) -> Callable[[Owner], OwnerRow]:
    """How an owner of a kind is shown."""

    def row(owner: Owner) -> OwnerRow:
        metadata, conditions = owner.metadata, owner.status.conditions
        wrong = (condition_of(conditions, each) for each in ("ReplicaFailure", "Failed"))
        return OwnerRow(
            id=f"{kind}/{metadata.namespace}/{metadata.name}",
            status=_status(owner),
            why=next((each.message for each in wrong if each and each.status == "True"), ""),
            queue=queue_of(owner.spec.template.metadata.labels),
            created=moment(metadata.creation_timestamp),
        )

    return row


def row_of_set(row: SetRow) -> OwnerRow:
    """A PodCliqueSet as one of them."""
    return OwnerRow(
        id=f"{SET}/{row.id}",
        status="Pending" if row.replicas else "Empty",
        why=row.problem,
        updating=row.updating,
        created=row.created,
    )


def _status(owner: Owner) -> str:
    spec, conditions = owner.spec, owner.status.conditions
    if is_true(conditions, "Complete"):
        return "Completed"
    if is_true(conditions, "Failed"):
        return "Failed"
    if spec.suspend:
        return "Suspended"
    return "Pending" if spec.replicas and spec.parallelism else "Empty"
