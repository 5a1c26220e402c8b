"""Small builders of what a clique decides on."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from kilonova.api.grove import PodClique, PodCliqueSet, PodCliqueStatus, names
from kilonova.api.grove.parts import RollingUpdate
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
from kilonova.api.times import rfc3339
from kilonova.workloads.cliques.desire import NewPod, Plan, Seen, desire
from kilonova.workloads.pods import pod_index
from kilonova.workloads.resources import Pod
from tests.workloads import builders

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
NEW, OLD = "new", "old"
"""Hashes of the template that a clique has, and of the one it had before."""


def ago(seconds: float) -> str:
    return rfc3339(NOW - timedelta(seconds=seconds))


def a_set(*, turn: bool = False, on_delete: bool = False, **template: Any) -> PodCliqueSet:
    """A set of one clique `w`; `turn`: its replica 0 is being updated."""
    progress = SetUpdateProgress(currently_updating=(UpdatingReplica(0),)) if turn else None
    return builders.pod_clique_set(
        builders.clique("w", 3),
        status=PodCliqueSetStatus(update_progress=progress),
        update_strategy=UpdateStrategy("OnDelete") if on_delete else None,
        **template,
    )


def a_clique(
    replicas: int = 3,
    least: int | None = None,
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
    """A clique of nobody's gang, unless one is named."""
    template = builders.clique(
        "w",
        replicas,
        least,
        after=after,
        pod_spec=builders.pod_template(restartPolicy=restart),
        rolling_update=update,
    )
    made = builders.pod_clique(builders.pod_clique_set(template), "w", status=status)
    gangs = {names.POD_GANG: gang, names.BASE_POD_GANG: base}
    kept = {key: value for key, value in made.metadata.labels.items() if key not in gangs}
    own = replace(
        made.metadata,
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
    return PodClique(own, replace(made.spec, starts_after=tuple(after)), made.status)


def a_pod(
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
    pod = builders.pod(clique, index, attempt, ready=bool(up), created=ago(age), **rest)
    uid = clique.metadata.uid if owner is None else owner
    reference = OwnerReference("v1", "PodClique", clique.metadata.name, uid, controller=True)
    own = replace(
        pod.metadata,
        owner_references=(reference,),
        labels={**pod.metadata.labels, names.POD_TEMPLATE_HASH: hash_},
    )
    status = replace(pod.status, conditions=(*pod.status.conditions, *conditions))
    return Pod(own, pod.spec, status)


def pods(clique: PodClique, *indexes: int, up: bool = True, **how: Any) -> list[Pod]:
    """Pods of some indexes, all alike; ready unless it is said otherwise."""
    return [a_pod(clique, index, up=up, **how) for index in indexes]


def a_gang(
    name: str, clique: PodClique, listed: Sequence[str], *, scheduled: bool = False
) -> PodGang:
    """A gang that lists some pods of a clique."""
    references = tuple(NamespacedName("default", each) for each in listed)
    conditions = (Condition("Scheduled", "True"),) if scheduled else ()
    return PodGang(
        builders.metadata(name),
        PodGangSpec((PodGroup(clique.metadata.name, references, 1),)),
        PodGangStatus(conditions=conditions),
    )


def decided(
    clique: PodClique, having: Sequence[Pod] = (), set_: PodCliqueSet | None = None, **more: Any
) -> Plan:
    return desire(Seen(clique, a_set() if set_ is None else set_, having, **more), NOW)


def made(plan: Plan) -> list[int]:
    """Indexes of the pods that a plan makes."""
    return [each.index for each in plan.create]


def removed(plan: Plan) -> list[int | None]:
    """Indexes of the pods that a plan removes."""
    return [pod_index(pod) for pod in plan.delete]


def after(clique: PodClique, having: Sequence[Pod], plan: Plan) -> list[Pod]:
    """The pods there are once a plan is carried out."""
    gone = {pod.metadata.name for pod in plan.delete}
    return [
        *(_ending(pod) if pod.metadata.name in gone else pod for pod in having),
        *(born(clique, each) for each in plan.create),
    ]


def born(clique: PodClique, new: NewPod) -> Pod:
    """A pod as a plan makes it."""
    pod = a_pod(clique, new.index, gated=new.gated, age=0)
    return Pod(replace(pod.metadata, name=new.name, uid=new.name), pod.spec, pod.status)


def _ending(pod: Pod) -> Pod:
    return Pod(replace(pod.metadata, deletion_timestamp=ago(0)), pod.spec, pod.status)


def condition(plan: Plan, type_: str) -> tuple[str, str] | None:
    """Status and reason of a condition that a plan tells."""
    found = [each for each in plan.status.conditions if each.type == type_]
    return (found[0].status, found[0].reason) if found else None
