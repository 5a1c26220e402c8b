"""Builders of sets, cliques and pods for tests.

`pod_clique_set(clique("leader"), clique("worker", 3), groups=[group("g", "worker")])` is a set as
the API returns it. `decode_built(…)` decodes a built object as if the API had stored it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from kilonova.api.grove import (
    CliqueTemplate,
    ClusterTopologyBinding,
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    PodCliqueSpec,
    PodCliqueStatus,
    ScalingGroupTemplate,
    names,
)
from kilonova.api.grove.podcliqueset import (
    PodCliqueSetSpec,
    PodCliqueSetStatus,
    StartupType,
    Template,
)
from kilonova.api.grove.topology import ClusterTopologyBindingSpec, TopologyLevel
from kilonova.api.json import JsonObject
from kilonova.api.meta import Condition, Metadata
from kilonova.kube.owner_references import build_owner_reference
from kilonova.workloads.builders.pod_cliques import GroupMember, build_clique
from kilonova.workloads.builders.scaling_groups import build_scaling_group
from kilonova.workloads.resources import (
    CLIQUES,
    SCALING_GROUPS,
    SETS,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
)
from kilonova.workloads.revisions import SetRevision, resolve_current_revision
from kilonova.workloads.settings import OperatorSettings

T = TypeVar("T")

NAMESPACE = "default"
SETTINGS = OperatorSettings()


def clique(
    name: str,
    replicas: int = 1,
    min_available: int | None = None,
    *,
    after: Sequence[str] = (),
    gpus: int = 0,
    pod_spec: JsonObject | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **rest: Any,
) -> CliqueTemplate:
    """A clique of a set; `rest` are fields of the template or of its spec."""
    in_spec = {
        key: rest.pop(key) for key in ("auto_scaling_config", "rolling_update") if key in rest
    }
    spec = PodCliqueSpec(
        role_name=name,
        pod_spec=pod_template(gpus) if pod_spec is None else pod_spec,
        replicas=replicas,
        min_available=replicas if min_available is None else min_available,
        starts_after=tuple(after),
        **in_spec,
    )
    return CliqueTemplate(name, spec, dict(labels or {}), dict(annotations or {}), **rest)


def group(
    name: str, *cliques: str, replicas: int = 1, min_available: int = 1, **rest: Any
) -> ScalingGroupTemplate:
    """A scaling group of a set; `rest` are further fields."""
    return ScalingGroupTemplate(
        name, tuple(cliques), replicas=replicas, min_available=min_available, **rest
    )


def pod_clique_set(
    *cliques: CliqueTemplate,
    groups: Sequence[ScalingGroupTemplate] = (),
    name: str = "sys",
    namespace: str = NAMESPACE,
    replicas: int = 1,
    startup: StartupType | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    status: PodCliqueSetStatus | None = None,
    update_strategy: Any = None,
    **template: Any,
) -> PodCliqueSet:
    """A set as the API gives it; `template` are further fields of its template."""
    if startup is not None:
        template["clique_startup_type"] = startup
    spec = PodCliqueSetSpec(
        Template(
            cliques or (clique("worker"),), pod_clique_scaling_groups=tuple(groups), **template
        ),
        replicas,
        update_strategy,
    )
    own = metadata(name, namespace, labels=labels, annotations=annotations)
    return PodCliqueSet(own, spec, status or PodCliqueSetStatus())


def metadata(name: str, namespace: str = NAMESPACE, **fields: Any) -> Metadata:
    """Metadata of a stored object; its uid is derived from its name."""
    all_fields: dict[str, Any] = {
        "name": name,
        "uid": f"uid-of-{name}",
        "resource_version": "1",
        "namespace": namespace,
        "generation": 1,
        **{key: value for key, value in fields.items() if value is not None},
    }
    return Metadata(**all_fields)


def pod_template(gpus: int = 0, **fields: Any) -> JsonObject:
    """A pod spec with one container, as users write it."""
    container: JsonObject = {"name": "main", "image": "busybox"}
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return {"containers": [container], **fields}


def to_manifest(set_: PodCliqueSet) -> JsonObject:
    """A set as it is sent to the API."""
    own = set_.metadata
    return {
        "apiVersion": SETS.api_version,
        "kind": SETS.kind,
        "metadata": {
            "name": own.name,
            "namespace": own.namespace,
            "labels": dict(own.labels),
            "annotations": dict(own.annotations),
        },
        "spec": without_nulls(msgspec.to_builtins(set_.spec)),
    }


def without_nulls(value: Any) -> Any:
    """JSON without null fields, which the API rejects."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, (list, tuple)):
        return [without_nulls(each) for each in value]
    return value


def decode_built(body: JsonObject, type_: type[T], **stored: Any) -> T:
    """A built object as the API returns it; `stored` are further fields, such as status."""
    own: JsonObject = {
        "uid": f"uid-of-{body['metadata']['name']}",
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        **body["metadata"],
    }
    whole = {**body, "metadata": own, **msgspec.to_builtins(stored)}
    return msgspec.convert(whole, type_)


def get_current_revision(set_: PodCliqueSet) -> SetRevision:
    """The first revision of a set."""
    return resolve_current_revision(set_, [])


def build_group_member(
    set_: PodCliqueSet, group_name: str, group_index: int, index: int = 0
) -> GroupMember:
    """A replica of a scaling group of a set."""
    groups = set_.spec.template.pod_clique_scaling_groups
    template = next(each for each in groups if each.name == group_name)
    full = names.scaling_group(set_.metadata.name, index, group_name)
    return GroupMember(template, full, group_index)


def pod_clique(
    set_: PodCliqueSet,
    name: str,
    index: int = 0,
    in_group: GroupMember | None = None,
    *,
    settings: OperatorSettings = SETTINGS,
    status: PodCliqueStatus | None = None,
) -> PodClique:
    """A PodClique of a set as the operator creates it."""
    owner = None
    if in_group is not None:
        owner = build_owner_reference(SCALING_GROUPS, metadata(in_group.group_name))
    built = build_clique(
        set_, index, get_current_revision(set_), name, in_group, settings, owner=owner
    )
    return decode_built(built, PodClique, **({"status": status} if status else {}))


def scaling_group(set_: PodCliqueSet, name: str, index: int = 0) -> PodCliqueScalingGroup:
    """A PodCliqueScalingGroup of a set as the operator creates it."""
    groups = set_.spec.template.pod_clique_scaling_groups
    template = next(each for each in groups if each.name == name)
    return decode_built(
        build_scaling_group(set_, index, get_current_revision(set_), template),
        PodCliqueScalingGroup,
    )


def pod(
    clique_: PodClique,
    index: int = 0,
    attempt: int = 0,
    *,
    node: str = "",
    ready: bool = False,
    gated: bool = False,
    phase: str = "",
    ending: bool = False,
    exit_code: int | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    created: str = "2026-01-01T00:00:00Z",
) -> Pod:
    """A pod of a clique. A ready one has a node and runs by default."""
    node = node or ("node" if ready else "")
    phase = phase or ("Running" if ready else "Pending")
    own = metadata(
        names.pod(clique_.metadata.name, index, attempt),
        clique_.metadata.namespace,
        labels={
            **clique_.metadata.labels,
            names.POD_CLIQUE: clique_.metadata.name,
            names.POD_INDEX: str(index),
            **(labels or {}),
        },
        annotations={**clique_.metadata.annotations, **(annotations or {})},
        creation_timestamp=created,
        deletion_timestamp="2026-01-01T00:00:00Z" if ending else None,
    )
    ended = None if exit_code is None else ContainerStateTerminated(exit_code)
    container = ContainerStatus(ready=ready, started=ready, last_state=ContainerState(ended))
    return Pod(
        own,
        PodSpec(
            node_name=node,
            scheduling_gates=(PodSchedulingGate(names.POD_GANG_GATE),) if gated else (),
        ),
        PodStatus(
            phase=phase,
            conditions=(Condition("Ready", "True"),) if ready else (),
            container_statuses=(container,) if node else (),
        ),
    )


def build_owner_references(*children: str) -> dict[str, JsonObject]:
    """Owner references to existing scaling groups and cliques, by full name."""
    return {each: build_owner_reference(CLIQUES, metadata(each)) for each in children}


def topology(name: str, **keys: str) -> ClusterTopologyBinding:
    """A topology with these levels, broadest first: `topology("t", zone="z", rack="r")`."""
    levels = tuple(TopologyLevel(domain, key) for domain, key in keys.items())
    return ClusterTopologyBinding(metadata(name, ""), ClusterTopologyBindingSpec(levels))
