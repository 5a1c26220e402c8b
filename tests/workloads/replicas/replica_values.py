"""Small builders of what a replica decides on.

`World` is a set's replica 0 as the caches would hold it, after any writes of a plan: what plans
create, patch and delete is done to it, as an API would.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from kilonova.api.grove import (
    ClusterTopologyBinding,
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    PodCliqueStatus,
)
from kilonova.api.grove.podcliqueset import SetUpdateProgress, UpdatingReplica
from kilonova.api.json import JsonObject
from kilonova.api.meta import Condition, Metadata
from kilonova.api.podgang import PodGang
from kilonova.api.times import rfc3339
from kilonova.kube import Key
from kilonova.workloads import resources
from kilonova.workloads.cliques.roster import roster_of
from kilonova.workloads.keys import clique_of, incarnation_of
from kilonova.workloads.replicas.desire import desire
from kilonova.workloads.replicas.observed import Observed
from kilonova.workloads.replicas.plan import Plan
from kilonova.workloads.replicas.revision import revision_of_replica
from kilonova.workloads.replicas.units import units_of
from kilonova.workloads.resources import Pod, Revision
from kilonova.workloads.revisions import (
    SetRevision,
    current_revision,
    read_revision,
    revision_object,
)
from kilonova.workloads.templates.pods import pod_name, pod_object
from tests.workloads.builders import SETTINGS, made

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
BREACHED = "MinAvailableBreached"

T = TypeVar("T")


def ago(seconds: float) -> str:
    return rfc3339(NOW - timedelta(seconds=seconds))


@dataclass
class World:
    """One replica of a set, in memory."""

    set_: PodCliqueSet
    index: int = 0
    stored: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """Objects by kind and name."""
    pods: list[Pod] = field(default_factory=list[Pod])
    revisions: list[Revision] = field(default_factory=list[Revision])
    topologies: dict[str, ClusterTopologyBinding] = field(
        default_factory=dict[str, ClusterTopologyBinding]
    )
    claim_templates: dict[Key, JsonObject] = field(default_factory=dict[Key, JsonObject])
    set_claims: set[str] = field(default_factory=set[str])
    """Names of the claims of the whole set that are there."""

    def __post_init__(self) -> None:
        self.record()

    def record(self) -> SetRevision:
        """Write the set's revision down, as the controller of sets does."""
        found = current_revision(self.set_, self.revisions)
        others = [each for each in self.revisions if each.metadata.name != found.name]
        self.revisions = [*others, made(revision_object(self.set_, found), Revision)]
        return found

    def edit(self, set_: PodCliqueSet) -> None:
        """Put another set in the place of this one; its revision is written down."""
        self.set_ = set_
        self.record()

    def of(self, kind: str) -> dict[str, Any]:
        return self.stored.setdefault(kind, {})

    @property
    def cliques(self) -> dict[str, PodClique]:
        return self.of("PodClique")

    @property
    def groups(self) -> dict[str, PodCliqueScalingGroup]:
        return self.of("PodCliqueScalingGroup")

    @property
    def gangs(self) -> dict[str, PodGang]:
        return self.of("PodGang")

    def seen(self) -> Observed:
        pods_of: dict[str, list[Pod]] = {}
        for pod in self.pods:
            key = clique_of(pod.metadata)
            if key is not None:
                pods_of.setdefault(key[1], []).append(pod)
        known = {each.hash: each for each in map(read_revision, self.revisions)}
        return Observed(
            set_=self.set_,
            index=self.index,
            current=current_revision(self.set_, self.revisions),
            revisions=known,
            cliques=self.cliques,
            groups=self.groups,
            gangs=self.gangs,
            rosters={
                name: roster_of(each, pods_of.get(name, ())) for name, each in self.cliques.items()
            },
            pods_of=lambda name: pods_of.get(name, ()),
            services=self.of("Service"),
            autoscalers=self.of("HorizontalPodAutoscaler"),
            claims=self.of("ResourceClaim"),
            compute_domains=self.of("ComputeDomain"),
            topologies=self.topologies,
            claim_templates=self.claim_templates,
            has_claim=self.set_claims.__contains__,
        )

    def plan(self, anew: Iterable[str] = ()) -> Plan:
        seen = self.seen()
        revision = revision_of_replica(seen)
        assert revision is not None
        groups = units_of(seen, revision)
        return desire(seen, revision, groups, frozenset(anew), SETTINGS)

    def settle(self, anew: Iterable[str] = ()) -> list[Plan]:
        """Do what is planned until nothing is; a plan that comes to no end is an error."""
        plans: list[Plan] = []
        while not (plan := self.plan(() if plans else anew)).is_empty:
            plans.append(plan)
            assert len(plans) < 5, f"no end: {plan}"
            self.carry_out(plan)
        return plans

    def carry_out(self, plan: Plan) -> None:
        for each in plan.first_creates:
            self._store(each.resource, copy.deepcopy(each.body))
        for each in plan.patches:
            live = self.of(each.resource.kind)[each.name]
            whole = msgspec.json.decode(msgspec.json.encode(live))
            before = whole["spec"]
            _merge(whole, each.body)
            if whole["spec"] != before:
                whole["metadata"]["generation"] += 1
            self.of(each.resource.kind)[each.name] = msgspec.convert(whole, each.resource.type)
        for each in plan.deletes:
            del self.of(each.resource.kind)[each.name]
            if each.resource is resources.CLIQUES:
                gone = (each.metadata.namespace, each.name)
                self.pods = [pod for pod in self.pods if clique_of(pod.metadata) != gone]

    def scale(self, kind: str, name: str, replicas: int) -> None:
        """As people and autoscalers do."""
        live = self.of(kind)[name]
        self.of(kind)[name] = type(live)(
            live.metadata, replace(live.spec, replicas=replicas), live.status
        )

    def change(self, kind: str, name: str, **parts: Any) -> None:
        """Give an object another metadata, spec or status."""
        live = self.of(kind)[name]
        now = {
            "metadata": live.metadata,
            "spec": live.spec,
            "status": getattr(live, "status", None),
            **parts,
        }
        if now["status"] is None:
            del now["status"]
        self.of(kind)[name] = type(live)(**now)

    def bring_up(self, *names_: str, ready: bool = True) -> None:
        """Make the missing pods of cliques (all, unless some are named), and have them tell."""
        for name in names_ or list(self.cliques):
            clique = self.cliques[name]
            own = (clique.metadata.namespace, name)
            incarnation = incarnation_of(clique.metadata)
            self.pods = [
                pod
                for pod in self.pods
                if clique_of(pod.metadata) != own or incarnation_of(pod.metadata) == incarnation
            ]
            held = sum(clique_of(pod.metadata) == own for pod in self.pods)
            for index in range(held, clique.spec.replicas):
                self.pods.append(_pod(clique, self.set_, index, ready))
            if ready:
                self.tell(name, breached=False)

    def tell(self, name: str, *, breached: bool, since: float = 0, healthy: bool = True) -> None:
        """Have a clique say how it is; healthy if it has been so in this incarnation."""
        clique = self.cliques[name]
        condition = Condition(BREACHED, str(breached), last_transition_time=ago(since))
        incarnation = incarnation_of(clique.metadata) if healthy else None
        status = PodCliqueStatus(conditions=(condition,), healthy_incarnation=incarnation)
        self.change("PodClique", name, status=status)

    def lose(self, name: str, *, since: float = 0) -> None:
        """All pods of a clique go, and it says so."""
        own = (self.set_.metadata.namespace, name)
        self.pods = [pod for pod in self.pods if clique_of(pod.metadata) != own]
        self.tell(name, breached=True, since=since)

    def _store(self, resource: Any, body: JsonObject) -> None:
        assert body["metadata"]["name"] not in self.of(resource.kind)
        self.of(resource.kind)[body["metadata"]["name"]] = made(body, resource.type)


def started(set_: PodCliqueSet, **rest: Any) -> World:
    """A replica that is all there and ready."""
    world = World(set_, **rest)
    world.settle()
    world.bring_up()
    world.settle()
    return world


def turn(set_: PodCliqueSet, *indexes: int) -> PodCliqueSet:
    """The set with it being the turn of some replicas in an update."""
    turns = tuple(UpdatingReplica(each) for each in indexes)
    progress = SetUpdateProgress(update_started_at=ago(0), currently_updating=turns)
    return PodCliqueSet(set_.metadata, set_.spec, replace(set_.status, update_progress=progress))


def with_images(set_: PodCliqueSet, **images: str) -> PodCliqueSet:
    """The set with other images in some cliques; dashes are written as underscores."""
    template = set_.spec.template
    wanted = {name.replace("_", "-"): image for name, image in images.items()}
    cliques = tuple(
        replace(each, spec=replace(each.spec, pod_spec=_image(wanted[each.name])))
        if each.name in wanted
        else each
        for each in template.cliques
    )
    spec = replace(set_.spec, template=replace(template, cliques=cliques))
    metadata = replace(set_.metadata, generation=set_.metadata.generation + 1)
    return PodCliqueSet(metadata, spec, set_.status)


def going(metadata: Metadata) -> Metadata:
    return replace(metadata, deletion_timestamp=ago(1))


def incarnations(world: World) -> dict[str, int]:
    """How often each clique was started anew."""
    return {name: incarnation_of(each.metadata) for name, each in world.cliques.items()}


def created(plans: Sequence[Plan], kind: str) -> list[str]:
    return sorted(
        each.name for plan in plans for each in plan.first_creates if each.resource.kind == kind
    )


def listed(gang: PodGang) -> dict[str, list[str]]:
    """The pods of a gang by group."""
    return {
        group.name: [each.name for each in group.pod_references] for group in gang.spec.pod_groups
    }


def _image(image: str) -> JsonObject:
    return {"containers": [{"name": "main", "image": image}]}


def _pod(clique: PodClique, set_: PodCliqueSet, index: int, ready: bool) -> Pod:
    name = pod_name(clique.metadata.name, index, ())
    body = pod_object(clique, set_, index, name, gated=False, released=True, settings=SETTINGS)
    pod = made(body, Pod)
    if not ready:
        return pod
    ready_status = replace(
        pod.status, phase="Running", conditions=(Condition("Ready", "True", "", "", ago(0)),)
    )
    return Pod(pod.metadata, replace(pod.spec, node_name="node"), ready_status)


def _merge(target: JsonObject, patch: Mapping[str, Any]) -> None:
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        elif isinstance(value, dict) and isinstance(target.get(name), dict):
            _merge(target[name], value)
        else:
            target[name] = value
