"""Pods and gangs that objects would bring about, before anybody made them.

Pods are made from their templates as controllers do: a Deployment's replicas, as many pods of a Job
as run at once, the cliques and gangs of a PodCliqueSet. What a server fills in is filled in as far
as placement looks at it.
"""

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import msgspec

from kilonova.api.grove import ClusterTopologyBinding
from kilonova.api.imagetaint import TOLERATION
from kilonova.api.json import JsonObject
from kilonova.api.podgang import PodGang
from kilonova.api.scheduling import Queue
from kilonova.api.schedulingnames import SCHEDULER
from kilonova.cli.failure import CommandFailed
from kilonova.cli.manifests import Manifest
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.groupobjects import COSCHEDULED, NATIVE, CoscheduledGroup, NativeGroup
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.podgroups import Group
from kilonova.workloads.limits import MOST_PODS

T = TypeVar("T")

_NOT_PLANNED = ("DaemonSet", "CronJob", "PodClique", "PodCliqueScalingGroup", "LeaderWorkerSet")
_BUILT_IN = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


@dataclass(slots=True)
class Drafts:
    """What would come, and what people should know about how it was read."""

    pods: list[Pod] = field(default_factory=list[Pod])
    gangs: list[PodGang] = field(default_factory=list[PodGang])
    groups: list[Group] = field(default_factory=list[Group])
    queues: list[Queue] = field(default_factory=list[Queue])
    notes: list[str] = field(default_factory=list[str])


Topologies = Mapping[str, ClusterTopologyBinding]


class Drafting:
    """Reads objects into drafts. `process_nodes` are those that pull no images: pods that select
    one or can run there get the toleration that admission gives them."""

    def __init__(
        self,
        now: str,
        priorities: Mapping[str, int],
        topologies: Topologies,
        *,
        never_preempting: Collection[str] = (),
        process_nodes: Sequence[Node] = (),
    ) -> None:
        self._now = now
        self._process_nodes = process_nodes
        self._priorities = _BUILT_IN | dict(priorities)
        self._never_preempting = never_preempting
        self._topologies = topologies
        self.drafts = Drafts()

    def take(self, manifests: Iterable[Manifest]) -> None:
        """Adds what objects would bring about; those that need no place are passed over."""
        for manifest in manifests:
            draft = self._by_kind().get(manifest.kind)
            if draft is not None:
                draft(manifest)
            elif manifest.kind in _NOT_PLANNED:
                self._note(f"{manifest.where}: a {manifest.kind} is not planned")

    def _by_kind(self) -> Mapping[str, Callable[[Manifest], None]]:
        return {
            "Pod": lambda each: self._add_pod(each, each.body, each.name),
            "Deployment": self._replicas,
            "ReplicaSet": self._replicas,
            "ReplicationController": self._replicas,
            "StatefulSet": self._replicas,
            "Job": self._job,
            "PodGang": self._gang,
            "PodGroup": self._group,
            "PodCliqueSet": self._set,
            "Queue": lambda each: self.drafts.queues.append(self._read(each, each.body, Queue)),
        }

    def _replicas(self, manifest: Manifest) -> None:
        spec = _object(manifest, manifest.body, "spec")
        self._templates(manifest, spec, _count(manifest, spec, "replicas", 1))

    def _job(self, manifest: Manifest) -> None:
        spec = _object(manifest, manifest.body, "spec")
        at_once = _count(manifest, spec, "parallelism", 1)
        self._templates(
            manifest, spec, min(at_once, _count(manifest, spec, "completions", at_once))
        )

    def _templates(self, manifest: Manifest, spec: JsonObject, count: int) -> None:
        template = _object(manifest, spec, "template")
        for index in range(count):
            self._add_pod(manifest, template, f"{manifest.name}-{index}")

    def _gang(self, manifest: Manifest) -> None:
        self.drafts.gangs.append(self._read(manifest, manifest.body, PodGang))

    def _group(self, manifest: Manifest) -> None:
        version = manifest.body["apiVersion"]
        if version == COSCHEDULED.api_version:
            self.drafts.groups.append(self._read(manifest, manifest.body, CoscheduledGroup))
        elif version == NATIVE.api_version:
            spec = _object(manifest, manifest.body, "spec")
            if spec.get("priorityClassName"):
                spec = {**spec, "priority": self._priority(manifest, spec)}
            body = {**manifest.body, "spec": spec}
            self.drafts.groups.append(self._read(manifest, body, NativeGroup))
        else:
            self._note(f"{manifest.where}: a PodGroup of {version} is not planned")

    def _set(self, manifest: Manifest) -> None:
        from kilonova.cli.setdrafts import objects_of_set

        made = objects_of_set(self._completed(manifest, manifest.body), self._topologies)
        if isinstance(made, str):
            raise CommandFailed(f"{manifest.where}: {made}")
        for pod in made.pods:
            self._add_pod(manifest, pod, pod["metadata"]["name"])
        for gang in made.gangs:
            self.drafts.gangs.append(self._read(manifest, gang, PodGang))
        for note in made.notes:
            self._note(f"{manifest.where}: {note}")

    def _add_pod(self, manifest: Manifest, template: JsonObject, name: str) -> None:
        body = copy.deepcopy(template)
        body.setdefault("metadata", {})["name"] = name
        spec = _object(manifest, body, "spec")
        if spec.pop("schedulingGates", None):
            self._note(f"{manifest.where}: its gates are taken to be open")
        scheduler = spec.get("schedulerName") or "default-scheduler"
        if scheduler != SCHEDULER:
            self._note(
                f"{manifest.where}: its pods name {scheduler}; planned as if {SCHEDULER} did it"
            )
        for what in _passed_over(spec):
            self._note(f"{manifest.where}: its {what} are not looked at")
        spec["schedulerName"] = SCHEDULER
        spec["priority"] = self._priority(manifest, spec)
        if spec.get("priorityClassName") in self._never_preempting:
            spec["preemptionPolicy"] = "Never"
        for container in _containers(spec):
            resources = container.setdefault("resources", {})
            requests: JsonObject = {
                **(resources.get("limits") or {}),
                **(resources.get("requests") or {}),
            }
            resources["requests"] = requests
        spec["tolerations"] = _with_usual_tolerations(spec.get("tolerations") or [])
        if self._may_run_on_a_process_node(manifest, spec):
            spec["tolerations"].append(TOLERATION)
        body.pop("status", None)
        self.drafts.pods.append(self._read(manifest, body, Pod))

    def _may_run_on_a_process_node(self, manifest: Manifest, spec: JsonObject) -> bool:
        """As admission decides it, but for what programs that machine has: that is not known here,
        so commands are taken to be found."""
        if not self._process_nodes:
            return False
        from kilonova.local.controllers.nodes.imagetaint import has_commands, needs_toleration

        try:
            return any(
                needs_toleration(spec, node.name, node.labels, has_commands)
                for node in self._process_nodes
            )
        except msgspec.ValidationError as error:
            raise CommandFailed(f"{manifest.where}: {manifest.kind}: spec: {error}") from error

    def _priority(self, manifest: Manifest, spec: JsonObject) -> int:
        name = spec.get("priorityClassName")
        if spec.get("priority") is not None or not name:
            return spec.get("priority") or 0
        if name not in self._priorities:
            self._note(f"{manifest.where}: the PriorityClass {name} is not known; taken as 0")
        return self._priorities.get(name, 0)

    def _read(self, manifest: Manifest, body: JsonObject, type_: type[T]) -> T:
        try:
            return msgspec.convert(self._completed(manifest, body), type_)
        except msgspec.ValidationError as error:
            raise CommandFailed(f"{manifest.where}: {manifest.kind}: {error}") from error

    def _completed(self, manifest: Manifest, body: JsonObject) -> JsonObject:
        """An object with the metadata that a server gives it."""
        given = {"uid": "", "resourceVersion": "", "creationTimestamp": self._now}
        metadata = {key: each for key, each in body["metadata"].items() if each is not None}
        metadata = {"namespace": manifest.namespace, **metadata, **given}
        return {**body, "metadata": metadata}

    def _note(self, text: str) -> None:
        if text not in self.drafts.notes:
            self.drafts.notes.append(text)


def _object(manifest: Manifest, body: JsonObject, name: str) -> JsonObject:
    found = body.get(name)
    if not isinstance(found, dict):
        raise CommandFailed(f"{manifest.where}: {manifest.kind} {manifest.name} has no {name}")
    return cast(JsonObject, found)


def _count(manifest: Manifest, spec: JsonObject, name: str, usual: int) -> int:
    found = spec.get(name)
    if found is None:
        return usual
    if not isinstance(found, int) or not 0 <= found <= MOST_PODS:
        where = f"{manifest.where}: {manifest.kind} {manifest.name}"
        wanted = f"a number from 0 to {MOST_PODS}"
        raise CommandFailed(f"{where}: spec.{name} is {found!r}: write {wanted}")
    return found


def _with_usual_tolerations(own: list[JsonObject]) -> list[JsonObject]:
    """Those of a pod, and what servers add: all put up with nodes that are away for a while."""
    added: list[JsonObject] = [
        {"key": key, "operator": "Exists", "effect": "NoExecute"}
        for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        if not any(
            each.get("key") in (None, "", key) and each.get("effect") in (None, "", "NoExecute")
            for each in own
        )
    ]
    return [*own, *added]


def _passed_over(spec: JsonObject) -> Iterator[str]:
    """What of a pod matters to placement and is not planned with."""
    volumes: list[JsonObject] = spec.get("volumes") or []
    if any("persistentVolumeClaim" in each or "ephemeral" in each for each in volumes):
        yield "volumes"
    if spec.get("resourceClaims"):
        yield "device claims"


def _containers(spec: JsonObject) -> Sequence[JsonObject]:
    found: list[Any] = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return [cast(JsonObject, each) for each in found if isinstance(each, dict)]
