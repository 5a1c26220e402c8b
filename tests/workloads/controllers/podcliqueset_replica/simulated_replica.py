"""Builders of the inputs of the set_replica controller's decisions.

`SimulatedReplica` is replica 0 of a set as the caches would contain it: it applies the creates,
patches and deletes of plans as an API would.
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
from kilonova.api.times import format_rfc3339
from kilonova.kube import Key
from kilonova.kube.controllers.controller_revisions import ControllerRevision
from kilonova.workloads import resources
from kilonova.workloads.builders.pods import build_pod, choose_pod_name
from kilonova.workloads.controllers.podcliqueset_replica.desire import desire
from kilonova.workloads.controllers.podcliqueset_replica.observed import ObservedReplica
from kilonova.workloads.controllers.podcliqueset_replica.scaling_groups.state import (
    compute_group_states,
)
from kilonova.workloads.controllers.podcliqueset_replica.target_revision import (
    select_target_revision,
)
from kilonova.workloads.controllers.podcliqueset_replica.write_plan import WritePlan
from kilonova.workloads.keys import get_clique_key, get_incarnation
from kilonova.workloads.pods.classification import classify_pods
from kilonova.workloads.resources import Pod
from kilonova.workloads.revisions import (
    SetRevision,
    build_controller_revision,
    decode_revision,
    resolve_current_revision,
)
from tests.workloads.api_objects import SETTINGS, decode_built

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
BREACHED = "MinAvailableBreached"

T = TypeVar("T")


def seconds_ago(seconds: float) -> str:
    return format_rfc3339(NOW - timedelta(seconds=seconds))


@dataclass
class SimulatedReplica:
    """One replica of a set, in memory."""

    set_: PodCliqueSet
    index: int = 0
    stored: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """Objects by kind and name."""
    pods: list[Pod] = field(default_factory=list[Pod])
    revisions: list[ControllerRevision] = field(default_factory=list[ControllerRevision])
    topologies: dict[str, ClusterTopologyBinding] = field(
        default_factory=dict[str, ClusterTopologyBinding]
    )
    claim_templates: dict[Key, JsonObject] = field(default_factory=dict[Key, JsonObject])
    set_claims: set[str] = field(default_factory=set[str])
    """Names of the claims of the whole set that are there."""

    def __post_init__(self) -> None:
        self.record_revision()

    def record_revision(self) -> SetRevision:
        """Write the set's revision down, as the controller of sets does."""
        found = resolve_current_revision(self.set_, self.revisions)
        others = [each for each in self.revisions if each.metadata.name != found.name]
        self.revisions = [
            *others,
            decode_built(build_controller_revision(self.set_, found), ControllerRevision),
        ]
        return found

    def edit(self, set_: PodCliqueSet) -> None:
        """Put another set in the place of this one; its revision is written down."""
        self.set_ = set_
        self.record_revision()

    def objects_of_kind(self, kind: str) -> dict[str, Any]:
        return self.stored.setdefault(kind, {})

    @property
    def cliques(self) -> dict[str, PodClique]:
        return self.objects_of_kind("PodClique")

    @property
    def groups(self) -> dict[str, PodCliqueScalingGroup]:
        return self.objects_of_kind("PodCliqueScalingGroup")

    @property
    def gangs(self) -> dict[str, PodGang]:
        return self.objects_of_kind("PodGang")

    def observe(self) -> ObservedReplica:
        pods_of: dict[str, list[Pod]] = {}
        for pod in self.pods:
            key = get_clique_key(pod.metadata)
            if key is not None:
                pods_of.setdefault(key[1], []).append(pod)
        known = {each.hash: each for each in map(decode_revision, self.revisions)}
        return ObservedReplica(
            set_=self.set_,
            index=self.index,
            current_revision=resolve_current_revision(self.set_, self.revisions),
            revisions=known,
            cliques=self.cliques,
            groups=self.groups,
            gangs=self.gangs,
            classified_pods={
                name: classify_pods(each, pods_of.get(name, ()))
                for name, each in self.cliques.items()
            },
            list_pods=lambda name: pods_of.get(name, ()),
            services=self.objects_of_kind("Service"),
            autoscalers=self.objects_of_kind("HorizontalPodAutoscaler"),
            claims=self.objects_of_kind("ResourceClaim"),
            compute_domains=self.objects_of_kind("ComputeDomain"),
            topologies=self.topologies,
            claim_templates=self.claim_templates,
            has_claim=self.set_claims.__contains__,
        )

    def plan(self, cliques_to_restart: Iterable[str] = ()) -> WritePlan:
        observed = self.observe()
        revision = select_target_revision(observed)
        assert revision is not None
        groups = compute_group_states(observed, revision)
        return desire(observed, revision, groups, frozenset(cliques_to_restart), SETTINGS)

    def converge(self, cliques_to_restart: Iterable[str] = ()) -> list[WritePlan]:
        """Apply plans until nothing is left to write; a plan that never converges is an error."""
        plans: list[WritePlan] = []
        while not (plan := self.plan(() if plans else cliques_to_restart)).is_empty:
            plans.append(plan)
            assert len(plans) < 5, f"no end: {plan}"
            self.apply_plan(plan)
        return plans

    def apply_plan(self, plan: WritePlan) -> None:
        for each in plan.next_creates:
            self._store(each.resource, copy.deepcopy(each.body))
        for each in plan.patches:
            live = self.objects_of_kind(each.resource.kind)[each.name]
            whole = msgspec.json.decode(msgspec.json.encode(live))
            before = whole["spec"]
            _merge_patch(whole, each.body)
            if whole["spec"] != before:
                whole["metadata"]["generation"] += 1
            self.objects_of_kind(each.resource.kind)[each.name] = msgspec.convert(
                whole, each.resource.type
            )
        for each in plan.deletes:
            del self.objects_of_kind(each.resource.kind)[each.name]
            if each.resource is resources.CLIQUES:
                gone = (each.metadata.namespace, each.name)
                self.pods = [pod for pod in self.pods if get_clique_key(pod.metadata) != gone]

    def scale(self, kind: str, name: str, replicas: int) -> None:
        """As people and autoscalers do."""
        live = self.objects_of_kind(kind)[name]
        self.objects_of_kind(kind)[name] = type(live)(
            live.metadata, replace(live.spec, replicas=replicas), live.status
        )

    def replace_parts(self, kind: str, name: str, **parts: Any) -> None:
        """Give an object another metadata, spec or status."""
        live = self.objects_of_kind(kind)[name]
        now = {
            "metadata": live.metadata,
            "spec": live.spec,
            "status": getattr(live, "status", None),
            **parts,
        }
        if now["status"] is None:
            del now["status"]
        self.objects_of_kind(kind)[name] = type(live)(**now)

    def start_pods(self, *names_: str, ready: bool = True) -> None:
        """Make the missing pods of cliques (all, unless some are named), and have them tell."""
        for name in names_ or list(self.cliques):
            clique = self.cliques[name]
            own = (clique.metadata.namespace, name)
            incarnation = get_incarnation(clique.metadata)
            self.pods = [
                pod
                for pod in self.pods
                if get_clique_key(pod.metadata) != own
                or get_incarnation(pod.metadata) == incarnation
            ]
            held = sum(get_clique_key(pod.metadata) == own for pod in self.pods)
            for index in range(held, clique.spec.replicas):
                self.pods.append(_build_pod(clique, self.set_, index, ready))
            if ready:
                self.report_clique_status(name, breached=False)

    def report_clique_status(
        self, name: str, *, breached: bool, since: float = 0, healthy: bool = True
    ) -> None:
        """Have a clique say how it is; healthy if it has been so in this incarnation."""
        clique = self.cliques[name]
        condition = Condition(BREACHED, str(breached), last_transition_time=seconds_ago(since))
        incarnation = get_incarnation(clique.metadata) if healthy else None
        status = PodCliqueStatus(conditions=(condition,), healthy_incarnation=incarnation)
        self.replace_parts("PodClique", name, status=status)

    def lose_pods(self, name: str, *, since: float = 0) -> None:
        """All pods of a clique go, and it says so."""
        own = (self.set_.metadata.namespace, name)
        self.pods = [pod for pod in self.pods if get_clique_key(pod.metadata) != own]
        self.report_clique_status(name, breached=True, since=since)

    def _store(self, resource: Any, body: JsonObject) -> None:
        assert body["metadata"]["name"] not in self.objects_of_kind(resource.kind)
        self.objects_of_kind(resource.kind)[body["metadata"]["name"]] = decode_built(
            body, resource.type
        )


def start_replica(set_: PodCliqueSet, **rest: Any) -> SimulatedReplica:
    """A replica that is all there and ready."""
    replica = SimulatedReplica(set_, **rest)
    replica.converge()
    replica.start_pods()
    replica.converge()
    return replica


def with_updating_replicas(set_: PodCliqueSet, *indexes: int) -> PodCliqueSet:
    """The set with some replicas being updated."""
    updating = tuple(UpdatingReplica(each) for each in indexes)
    progress = SetUpdateProgress(update_started_at=seconds_ago(0), currently_updating=updating)
    return PodCliqueSet(set_.metadata, set_.spec, replace(set_.status, update_progress=progress))


def with_images(set_: PodCliqueSet, **images: str) -> PodCliqueSet:
    """The set with other images in some cliques; dashes are written as underscores."""
    template = set_.spec.template
    wanted = {name.replace("_", "-"): image for name, image in images.items()}
    cliques = tuple(
        replace(each, spec=replace(each.spec, pod_spec=_build_pod_spec(wanted[each.name])))
        if each.name in wanted
        else each
        for each in template.cliques
    )
    spec = replace(set_.spec, template=replace(template, cliques=cliques))
    metadata = replace(set_.metadata, generation=set_.metadata.generation + 1)
    return PodCliqueSet(metadata, spec, set_.status)


def mark_deleted(metadata: Metadata) -> Metadata:
    return replace(metadata, deletion_timestamp=seconds_ago(1))


def list_incarnations(replica: SimulatedReplica) -> dict[str, int]:
    """The incarnation of each clique."""
    return {name: get_incarnation(each.metadata) for name, each in replica.cliques.items()}


def list_created(plans: Sequence[WritePlan], kind: str) -> list[str]:
    return sorted(
        each.name for plan in plans for each in plan.next_creates if each.resource.kind == kind
    )


def list_gang_pods(gang: PodGang) -> dict[str, list[str]]:
    """The pods of a gang by group."""
    return {
        group.name: [each.name for each in group.pod_references] for group in gang.spec.pod_groups
    }


def _build_pod_spec(image: str) -> JsonObject:
    return {"containers": [{"name": "main", "image": image}]}


def _build_pod(clique: PodClique, set_: PodCliqueSet, index: int, ready: bool) -> Pod:
    name = choose_pod_name(clique.metadata.name, index, ())
    body = build_pod(clique, set_, index, name, gated=False, released=True, settings=SETTINGS)
    pod = decode_built(body, Pod)
    if not ready:
        return pod
    ready_status = replace(
        pod.status,
        phase="Running",
        conditions=(Condition("Ready", "True", "", "", seconds_ago(0)),),
    )
    return Pod(pod.metadata, replace(pod.spec, node_name="node"), ready_status)


def _merge_patch(obj: JsonObject, patch: Mapping[str, Any]) -> None:
    for name, value in patch.items():
        if value is None:
            obj.pop(name, None)
        elif isinstance(value, dict) and isinstance(obj.get(name), dict):
            _merge_patch(obj[name], value)
        else:
            obj[name] = value
