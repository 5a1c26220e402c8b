"""The gang of an instance that does not exist, as the scheduler would get it. Pure.

Its objects are those that the controllers create. What an API server would add to them is added as
far as scheduling depends on it: default requests, and priorities by class. Tolerations and other
fields that admission of a cluster adds are not known here.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from kilonova.api.inference_engine import names
from kilonova.api.json import JsonObject
from kilonova.api.podgang import PodGang
from kilonova.api.scheduling_names import SCHEDULER_NAME
from kilonova.api.times import format_rfc3339
from kilonova.instances.allocation import AllocationConstraints
from kilonova.instances.builders.engine import Engine, InvalidSpec
from kilonova.instances.builders.gang import build_gang, list_preferred_levels
from kilonova.instances.builders.identity import Identity
from kilonova.instances.builders.pods import build_agent_pod, build_conductor_pod
from kilonova.scheduler.convert.gangs.podgangs import GangNotReady, convert_podgang
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot
from kilonova.scheduler.objects.core_v1 import Pod


def build_instance_gang(
    identity: Identity,
    engine: Engine,
    constraints: AllocationConstraints,
    cluster_snapshot: ClusterSnapshot,
    *,
    scheduler_name: str = SCHEDULER_NAME,
) -> Gang:
    """The gang of an instance created at the time of the snapshot; raises `InvalidSpec`."""
    agents = [
        build_agent_pod(
            identity,
            engine,
            index,
            scheduler_name=scheduler_name,
            node_preferences=constraints.node_preferences,
        )
        for index in range(engine.agents)
    ]
    conductor = build_conductor_pod(
        identity,
        engine,
        scheduler_name=scheduler_name,
        levels=list_preferred_levels(engine, constraints),
    )
    gang = build_gang(
        identity,
        engine,
        constraints,
        agents=[names.agent_pod(identity.name, index, 0) for index in range(engine.agents)],
        conductor=names.conductor_pod(identity.name, 0),
    )
    admission = _Admission(cluster_snapshot)
    pods = {pod.key: pod for pod in map(admission.to_pod, [*agents, conductor])}
    converted = convert_podgang(admission.to_gang(gang), pods.get)
    if isinstance(converted, GangNotReady):
        raise InvalidSpec(converted.reason, "spec", converted.message)
    return converted


class _Admission:
    """What a cluster makes of the objects that are created in it."""

    def __init__(self, cluster_snapshot: ClusterSnapshot) -> None:
        self._priorities = cluster_snapshot.priorities
        self._never_preempting = cluster_snapshot.never_preempting
        created = format_rfc3339(datetime.fromtimestamp(cluster_snapshot.now, UTC))
        self._metadata = {"uid": "", "resourceVersion": "", "creationTimestamp": created}

    def to_gang(self, body: JsonObject) -> PodGang:
        return msgspec.convert(self._with_metadata(body), PodGang)

    def to_pod(self, body: JsonObject) -> Pod:
        """A pod whose gates are removed already, as they are when the gang is complete."""
        spec: JsonObject = {**body["spec"], "schedulingGates": []}
        spec["containers"] = [_with_default_requests(each) for each in spec["containers"]]
        name = spec.get("priorityClassName", "")
        if name:
            if name not in self._priorities:
                known = ", ".join(sorted(self._priorities)) or "none"
                fix = f"create it, or use one of the cluster: {known}"
                raise InvalidSpec(
                    "PriorityClassNotFound", "spec.priorityClassName", f"no class {name!r}: {fix}"
                )
            spec["priority"] = self._priorities[name]
            if name in self._never_preempting:
                spec["preemptionPolicy"] = "Never"
        return msgspec.convert(self._with_metadata({**body, "spec": spec}), Pod)

    def _with_metadata(self, body: JsonObject) -> JsonObject:
        return {**body, "metadata": {**body["metadata"], **self._metadata}}


def _with_default_requests(container: JsonObject) -> JsonObject:
    """Requests default to limits."""
    resources: Mapping[str, JsonObject] = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return {**container, "resources": {**resources, "requests": {**limits, **requests}}}
