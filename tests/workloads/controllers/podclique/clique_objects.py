"""Builders of the inputs of the PodClique controller's decisions."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from kilonova.api.grove import PodClique, PodCliqueSet, PodCliqueStatus, names
from kilonova.api.grove.common import RollingUpdate
from kilonova.api.grove.podcliqueset import (
    PodCliqueSetStatus,
    SetUpdateProgress,
    UpdateStrategy,
    UpdatingReplica,
)
from kilonova.api.meta import Condition, OwnerReference
from kilonova.api.podgang import (
    NamespacedName,
    PodGang,
    PodGangSpec,
    PodGangStatus,
    PodGroup,
)
from kilonova.api.times import format_rfc3339
from kilonova.workloads.controllers.podclique.desire import NewPod, ObservedClique, PodPlan, desire
from kilonova.workloads.pods.state import get_pod_index
from kilonova.workloads.resources import Pod
from tests.workloads import api_objects

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
NEW, OLD = "new", "old"
"""Hashes of the template that a clique has, and of the one it had before."""


def seconds_ago(seconds: float) -> str:
    return format_rfc3339(NOW - timedelta(seconds=seconds))


def build_set(*, updating: bool = False, on_delete: bool = False, **template: Any) -> PodCliqueSet:
    """A set of one clique `w`; `turn`: its replica 0 is being updated."""
    progress = SetUpdateProgress(currently_updating=(UpdatingReplica(0),)) if updating else None
    return api_objects.pod_clique_set(
        api_objects.clique("w", 3),
        status=PodCliqueSetStatus(update_progress=progress),
        update_strategy=UpdateStrategy("OnDelete") if on_delete else None,
        **template,
    )


def build_clique(
    replicas: int = 3,
    min_available: int | None = None,
    *,
    after: Sequence[str] = (),
    restart: str = "Always",
    incarnation: int = 0,
    update: RollingUpdate | None = None,
    status: PodCliqueStatus | None = None,
    gang: str | None = None,
    base: str | None = None,
    labels: dict[str, str] | None = None,
    generation: int = 1,
) -> PodClique:
    """A clique without a gang by default."""
    template = api_objects.clique(
        "w",
        replicas,
        min_available,
        after=after,
        pod_spec=api_objects.pod_template(restartPolicy=restart),
        rolling_update=update,
    )
    created = api_objects.pod_clique(api_objects.pod_clique_set(template), "w", status=status)
    gangs = {names.POD_GANG: gang, names.BASE_POD_GANG: base}
    kept = {key: value for key, value in created.metadata.labels.items() if key not in gangs}
    own = replace(
        created.metadata,
        generation=generation,
        labels={
            **kept,
            **{key: value for key, value in gangs.items() if value},
            names.POD_TEMPLATE_HASH: NEW,
            names.GENERATION_HASH: NEW,
            **(labels or {}),
        },
        annotations={names.INCARNATION: str(incarnation)} if incarnation else {},
    )
    return PodClique(own, replace(created.spec, starts_after=tuple(after)), created.status)


def build_pod(
    clique: PodClique,
    index: int,
    attempt: int = 0,
    *,
    hash_: str = NEW,
    up: bool | None = None,
    age: float = 100,
    owner: str | None = None,
    conditions: Sequence[Condition] = (),
    **rest: Any,
) -> Pod:
    """A pod of a clique: ready if `up`, else on a node and starting; unplaced where up is None."""
    if up is not None:
        rest.setdefault("node", "n")
    pod = api_objects.pod(clique, index, attempt, ready=bool(up), created=seconds_ago(age), **rest)
    uid = clique.metadata.uid if owner is None else owner
    reference = OwnerReference("v1", "PodClique", clique.metadata.name, uid, controller=True)
    own = replace(
        pod.metadata,
        owner_references=(reference,),
        labels={**pod.metadata.labels, names.POD_TEMPLATE_HASH: hash_},
    )
    status = replace(pod.status, conditions=(*pod.status.conditions, *conditions))
    return Pod(own, pod.spec, status)


def build_pods(clique: PodClique, *indexes: int, up: bool = True, **options: Any) -> list[Pod]:
    """Equal pods of some indexes; ready by default."""
    return [build_pod(clique, index, up=up, **options) for index in indexes]


def build_gang(
    name: str, clique: PodClique, listed: Sequence[str], *, scheduled: bool = False
) -> PodGang:
    """A gang that lists some pods of a clique."""
    references = tuple(NamespacedName("default", each) for each in listed)
    conditions = (Condition("Scheduled", "True"),) if scheduled else ()
    return PodGang(
        api_objects.metadata(name),
        PodGangSpec((PodGroup(clique.metadata.name, references, 1),)),
        PodGangStatus(conditions=conditions),
    )


def plan_pods(
    clique: PodClique, pods: Sequence[Pod] = (), set_: PodCliqueSet | None = None, **more: Any
) -> PodPlan:
    return desire(ObservedClique(clique, build_set() if set_ is None else set_, pods, **more), NOW)


def list_created_indexes(plan: PodPlan) -> list[int]:
    """Indexes of the pods that a plan makes."""
    return [each.index for each in plan.create]


def list_deleted_indexes(plan: PodPlan) -> list[int | None]:
    """Indexes of the pods that a plan removes."""
    return [get_pod_index(pod) for pod in plan.delete]


def apply_plan(clique: PodClique, pods: Sequence[Pod], plan: PodPlan) -> list[Pod]:
    """The pods after a plan is applied."""
    gone = {pod.metadata.name for pod in plan.delete}
    return [
        *(_mark_terminating(pod) if pod.metadata.name in gone else pod for pod in pods),
        *(build_planned_pod(clique, each) for each in plan.create),
    ]


def build_planned_pod(clique: PodClique, new: NewPod) -> Pod:
    """A pod as a plan makes it."""
    pod = build_pod(clique, new.index, gated=new.gated, age=0)
    return Pod(replace(pod.metadata, name=new.name, uid=new.name), pod.spec, pod.status)


def _mark_terminating(pod: Pod) -> Pod:
    return Pod(replace(pod.metadata, deletion_timestamp=seconds_ago(0)), pod.spec, pod.status)


def get_condition(plan: PodPlan, type_: str) -> tuple[str, str] | None:
    """Status and reason of a condition that a plan tells."""
    found = [each for each in plan.status.conditions if each.type == type_]
    return (found[0].status, found[0].reason) if found else None
