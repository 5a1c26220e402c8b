"""Expands manifests to the pods and gangs that controllers would create, without a server.

Pods are built from their templates as controllers do: the replicas of a Deployment, as many pods of
a Job as run in parallel, the cliques and gangs of a PodCliqueSet. Fields that the API server
defaults are set as far as scheduling depends on them.
"""

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec

from kilonova.api import scheduling
from kilonova.api.group_kinds import WELL_KNOWN_GROUPS, GroupKind
from kilonova.api.grove import ClusterTopologyBinding
from kilonova.api.json import JsonObject
from kilonova.api.nodes.image_taint import TOLERATION
from kilonova.api.podgang import PodGang
from kilonova.api.pods.workload_owner import (
    DEPLOYMENT,
    GANG,
    JOB,
    POD,
    REPLICA_SET,
    SET,
    STATEFUL_SET,
)
from kilonova.api.quantity import QuantityError
from kilonova.api.scheduling import Queue
from kilonova.api.scheduling_names import DEFAULT_SCHEDULER_NAME, SCHEDULER_NAME
from kilonova.cli.plan.manifests import Manifest
from kilonova.component.failure import CommandFailed
from kilonova.local.objects.tolerations import add_default_tolerations
from kilonova.local.quota.resource_lists import set_default_requests
from kilonova.scheduler.convert.gangs.pod_groups import PodGroupObject
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.objects.core_v1 import Pod
from kilonova.scheduler.objects.pod_groups import (
    COSCHEDULING_POD_GROUPS,
    KUBERNETES_POD_GROUPS,
    CoschedulingPodGroup,
    KubernetesPodGroup,
)
from kilonova.workloads.limits import MAX_PODS

if TYPE_CHECKING:
    from kilonova.local.processnode.images import ImageTable

T = TypeVar("T")

_POD_GROUP = "PodGroup"
_QUEUE = GroupKind(scheduling.GROUP, "Queue")
_NAMES_OF_KINDS_WITH_PODS = frozenset([*WELL_KNOWN_GROUPS, "Pod", "ReplicationController"])
_BUILT_IN_PRIORITIES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


@dataclass(slots=True)
class ExpandedObjects:
    """The objects that would be created, and notes on how the manifests were interpreted."""

    pods: list[Pod] = field(default_factory=list[Pod])
    gangs: list[PodGang] = field(default_factory=list[PodGang])
    groups: list[PodGroupObject] = field(default_factory=list[PodGroupObject])
    queues: list[Queue] = field(default_factory=list[Queue])
    notes: list[str] = field(default_factory=list[str])


Topologies = Mapping[str, ClusterTopologyBinding]


class ManifestExpander:
    """Expands manifests into `objects`. `process_nodes` are nodes that pull no images: pods that
    select one or can run there get the toleration that admission adds."""

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
        self._priorities = _BUILT_IN_PRIORITIES | dict(priorities)
        self._never_preempting = never_preempting
        self._topologies = topologies
        self.objects = ExpandedObjects()

    def expand(self, manifests: Iterable[Manifest]) -> None:
        """Add the objects of some manifests; kinds without pods are skipped."""
        for manifest in manifests:
            expander = self._expanders().get(manifest.group_kind)
            if expander is not None:
                expander(manifest)
            elif manifest.group_kind.kind == _POD_GROUP:
                self._add_pod_group(manifest)
            elif manifest.group_kind.kind in _NAMES_OF_KINDS_WITH_PODS:
                self._add_note(f"{manifest.location}: a {manifest.kind} is not planned")

    def _expanders(self) -> Mapping[GroupKind, Callable[[Manifest], None]]:
        return {
            POD: lambda each: self._add_pod(each, each.body, each.name),
            GroupKind("", "ReplicationController"): self._expand_replicas,
            DEPLOYMENT: self._expand_replicas,
            REPLICA_SET: self._expand_replicas,
            STATEFUL_SET: self._expand_replicas,
            JOB: self._expand_job,
            GANG: self._add_gang,
            SET: self._expand_podcliqueset,
            _QUEUE: lambda each: self.objects.queues.append(self._convert(each, each.body, Queue)),
        }

    def _expand_replicas(self, manifest: Manifest) -> None:
        spec = _require_object(manifest, manifest.body, "spec")
        self._expand_template(manifest, spec, _read_count(manifest, spec, "replicas", 1))

    def _expand_job(self, manifest: Manifest) -> None:
        spec = _require_object(manifest, manifest.body, "spec")
        parallelism = _read_count(manifest, spec, "parallelism", 1)
        completions = _read_count(manifest, spec, "completions", parallelism)
        self._expand_template(manifest, spec, min(parallelism, completions))

    def _expand_template(self, manifest: Manifest, spec: JsonObject, count: int) -> None:
        template = _require_object(manifest, spec, "template")
        for index in range(count):
            self._add_pod(manifest, template, f"{manifest.name}-{index}")

    def _add_gang(self, manifest: Manifest) -> None:
        self.objects.gangs.append(self._convert(manifest, manifest.body, PodGang))

    def _add_pod_group(self, manifest: Manifest) -> None:
        version = manifest.body["apiVersion"]
        if version == COSCHEDULING_POD_GROUPS.api_version:
            self.objects.groups.append(self._convert(manifest, manifest.body, CoschedulingPodGroup))
        elif version == KUBERNETES_POD_GROUPS.api_version:
            spec = _require_object(manifest, manifest.body, "spec")
            if spec.get("priorityClassName"):
                spec = {**spec, "priority": self._resolve_priority(manifest, spec)}
            body = {**manifest.body, "spec": spec}
            self.objects.groups.append(self._convert(manifest, body, KubernetesPodGroup))
        else:
            self._add_note(f"{manifest.location}: a PodGroup of {version} is not planned")

    def _expand_podcliqueset(self, manifest: Manifest) -> None:
        from kilonova.cli.plan.podcliqueset_expansion import expand_podcliqueset

        expanded = expand_podcliqueset(
            self._with_server_metadata(manifest, manifest.body), self._topologies
        )
        if isinstance(expanded, str):
            raise CommandFailed(f"{manifest.location}: {expanded}")
        for pod in expanded.pods:
            self._add_pod(manifest, pod, pod["metadata"]["name"])
        for gang in expanded.gangs:
            self.objects.gangs.append(self._convert(manifest, gang, PodGang))
        for note in expanded.notes:
            self._add_note(f"{manifest.location}: {note}")

    def _add_pod(self, manifest: Manifest, template: JsonObject, name: str) -> None:
        body = copy.deepcopy(template)
        body.setdefault("metadata", {})["name"] = name
        spec = _require_object(manifest, body, "spec")
        if spec.pop("schedulingGates", None):
            self._add_note(f"{manifest.location}: its scheduling gates are ignored")
        scheduler = spec.get("schedulerName") or DEFAULT_SCHEDULER_NAME
        if scheduler != SCHEDULER_NAME:
            self._add_note(
                f"{manifest.location}: its schedulerName is {scheduler}; planned as if it were "
                f"{SCHEDULER_NAME}"
            )
        for field_name in _ignored_fields(spec):
            self._add_note(f"{manifest.location}: its {field_name} are ignored")
        spec["schedulerName"] = SCHEDULER_NAME
        spec["priority"] = self._resolve_priority(manifest, spec)
        if spec.get("priorityClassName") in self._never_preempting:
            spec["preemptionPolicy"] = "Never"
        self._set_default_requests(manifest, spec)
        add_default_tolerations(spec)
        if self._may_run_on_process_node(manifest, spec):
            spec["tolerations"].append(TOLERATION)
        body.pop("status", None)
        self.objects.pods.append(self._convert(manifest, body, Pod))

    def _set_default_requests(self, manifest: Manifest, spec: JsonObject) -> None:
        names = ("containers", "initContainers")
        containers: list[object] = [each for name in names for each in spec.get(name) or ()]
        if not all(isinstance(each, dict) for each in containers):
            return  # rejected when the pod is decoded
        try:
            set_default_requests(spec)
        except QuantityError as error:
            message = f"{manifest.location}: {manifest.kind}: spec: resources: {error}"
            raise CommandFailed(message) from error

    def _may_run_on_process_node(self, manifest: Manifest, spec: JsonObject) -> bool:
        """As admission decides by the image table that is shipped; the commands of containers are
        assumed to exist on the node."""
        if not self._process_nodes:
            return False
        from kilonova.local.objects.image_taint import all_containers, needs_toleration

        def has_commands(pod: JsonObject) -> bool:
            return all(map(self._image_table.has_command, all_containers(pod)))

        try:
            return any(
                needs_toleration(spec, node.name, node.labels, has_commands)
                for node in self._process_nodes
            )
        except msgspec.ValidationError as error:
            raise CommandFailed(f"{manifest.location}: {manifest.kind}: spec: {error}") from error

    @cached_property
    def _image_table(self) -> "ImageTable":
        from kilonova.local.processnode.images import load_image_table

        return load_image_table()

    def _resolve_priority(self, manifest: Manifest, spec: JsonObject) -> int:
        name = spec.get("priorityClassName")
        if spec.get("priority") is not None or not name:
            return spec.get("priority") or 0
        if name not in self._priorities:
            self._add_note(
                f"{manifest.location}: PriorityClass {name} does not exist; using priority 0"
            )
        return self._priorities.get(name, 0)

    def _convert(self, manifest: Manifest, body: JsonObject, type_: type[T]) -> T:
        try:
            return msgspec.convert(self._with_server_metadata(manifest, body), type_)
        except msgspec.ValidationError as error:
            raise CommandFailed(f"{manifest.location}: {manifest.kind}: {error}") from error

    def _with_server_metadata(self, manifest: Manifest, body: JsonObject) -> JsonObject:
        """The object with metadata as the API server sets it."""
        server_set = {"uid": "", "resourceVersion": "", "creationTimestamp": self._now}
        metadata = {key: each for key, each in body["metadata"].items() if each is not None}
        metadata = {"namespace": manifest.namespace, **metadata, **server_set}
        return {**body, "metadata": metadata}

    def _add_note(self, text: str) -> None:
        if text not in self.objects.notes:
            self.objects.notes.append(text)


def _require_object(manifest: Manifest, body: JsonObject, name: str) -> JsonObject:
    found = body.get(name)
    if not isinstance(found, dict):
        raise CommandFailed(f"{manifest.location}: {manifest.kind} {manifest.name} has no {name}")
    return cast(JsonObject, found)


def _read_count(manifest: Manifest, spec: JsonObject, name: str, default: int) -> int:
    found = spec.get(name)
    if found is None:
        return default
    if not isinstance(found, int) or not 0 <= found <= MAX_PODS:
        where = f"{manifest.location}: {manifest.kind} {manifest.name}"
        rule = f"must be a number from 0 to {MAX_PODS}"
        raise CommandFailed(f"{where}: spec.{name} is {found!r}: {rule}")
    return found


def _ignored_fields(spec: JsonObject) -> Iterator[str]:
    """Fields that affect scheduling and are not planned with."""
    volumes: list[JsonObject] = spec.get("volumes") or []
    if any("persistentVolumeClaim" in each or "ephemeral" in each for each in volumes):
        yield "volumes"
    if spec.get("resourceClaims"):
        yield "device claims"
