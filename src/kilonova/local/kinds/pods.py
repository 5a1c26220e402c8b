"""Pods: what is filled in, judged and shown beyond their spec."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.quantity import Quantity, QuantityError
from kilonova.api.quantity import from_json as quantity
from kilonova.local.errors import Problem, forbidden_field
from kilonova.local.kinds.podchange import pod_change_problems
from kilonova.local.kinds.podrules import name_problems, pod_spec_problems
from kilonova.local.kinds.podspec import fill_pod_spec
from kilonova.local.kinds.podtable import POD_COLUMNS, completed_condition, pod_cells
from kilonova.local.kinds.soundspecs import SoundSpecs
from kilonova.local.kinds.strategy import Reads, Strategy, strategy
from kilonova.local.kinds.walk import at, inside, objects, part, text_of
from kilonova.local.names import dns_label

_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATED_SECONDS = 300


def _pod_ip(pod: JsonObject) -> str:
    addresses = objects(pod, "status", "podIPs")
    return addresses[0].get("ip", "") if addresses else ""


@strategy("", "Pod")
class Pods(Strategy):
    """Pods start Pending, are bound by the `binding` subresource, and wait for their node to go."""

    shown_when_deleted = True
    is_graceful = True
    has_generation = True
    columns = POD_COLUMNS
    selectable: Mapping[str, Reads] = {
        "spec.nodeName": text_of("spec", "nodeName"),
        "spec.restartPolicy": text_of("spec", "restartPolicy"),
        "spec.schedulerName": text_of("spec", "schedulerName"),
        "spec.serviceAccountName": text_of("spec", "serviceAccountName"),
        "spec.hostNetwork": lambda pod: str(bool(at(pod, "spec", "hostNetwork"))).lower(),
        "status.phase": text_of("status", "phase"),
        "status.podIP": _pod_ip,
        "status.nominatedNodeName": text_of("status", "nominatedNodeName"),
    }
    indexed = frozenset({"spec.nodeName"})

    def fill(self, obj: JsonObject) -> None:
        spec = inside(obj, "spec")
        fill_pod_spec(spec)
        spec.setdefault("enableServiceLinks", True)
        host_network = spec.get("hostNetwork")
        for field in ("containers", "initContainers"):
            for container in objects(spec, field):
                _request_what_is_limited(part(container, "resources"))
                if host_network:
                    for port in objects(container, "ports"):
                        port.setdefault("hostPort", port.get("containerPort"))
        _fill_pod_requests(spec)

    def prepare_create(self, obj: JsonObject) -> None:
        spec = obj["spec"]
        tolerate_lost_nodes(spec)
        if not spec.get("priorityClassName"):
            spec.setdefault("priority", 0)
            spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
        status: JsonObject = {"phase": "Pending", "qosClass": qos_class(spec)}
        obj["status"] = status
        if spec.get("schedulingGates"):
            status["conditions"] = [_gated(obj["metadata"].get("creationTimestamp"))]

    def prepare_update(self, new: JsonObject, old: JsonObject) -> None:
        super().prepare_update(new, old)
        tolerate_lost_nodes(new["spec"])
        for field in ("priority", "preemptionPolicy"):
            if field in old["spec"]:
                new["spec"].setdefault(field, old["spec"][field])

    def prepare_status(self, new: JsonObject, old: JsonObject) -> None:
        super().prepare_status(new, old)
        if owners := old["metadata"].get("ownerReferences"):
            new["metadata"]["ownerReferences"] = owners
        else:
            new["metadata"].pop("ownerReferences", None)
        status, before = inside(new, "status"), part(old, "status")
        for field in ("qosClass", "observedGeneration"):
            if not status.get(field) and before.get(field):
                status[field] = before[field]

    def problems(self, obj: JsonObject) -> list[Problem]:
        spec = part(obj, "spec")
        if any(name_problems(spec, "spec")):
            return _spec_problems(spec)
        return _sound.problems(spec, _spec_problems)

    def validate_create(self, obj: JsonObject) -> list[Problem]:
        if objects(obj, "spec", "ephemeralContainers"):
            return [forbidden_field("spec.ephemeralContainers", "cannot be set on create")]
        return []

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        return pod_change_problems(new, old)

    def grace_seconds(self, obj: JsonObject, requested: int | None) -> int:
        if not at(obj, "spec", "nodeName"):
            return 0
        if at(obj, "status", "phase") in ("Failed", "Succeeded"):
            return 0
        grace = at(obj, "spec", "terminationGracePeriodSeconds") if requested is None else requested
        return 1 if (grace or 0) < 0 else grace or 0

    def cells(self, obj: JsonObject, now: datetime) -> list[Any]:
        return pod_cells(obj, now)

    def row_conditions(self, obj: JsonObject) -> list[JsonObject]:
        return completed_condition(obj)

    def warnings(self, obj: JsonObject) -> list[str]:
        trouble = dns_label(obj["metadata"].get("name") or "a")
        if not trouble:
            return []
        return [
            "metadata.name: this is used in the Pod's hostname, which can result in surprising "
            f"behavior; a DNS label is recommended: [{trouble}]"
        ]


_sound = SoundSpecs()


def _spec_problems(spec: JsonObject) -> list[Problem]:
    return pod_spec_problems(spec, "spec")


def qos_class(spec: JsonObject) -> str:
    """Guaranteed, Burstable or BestEffort, from requests and limits of CPU and memory."""
    holders = [spec] if spec.get("resources") else []
    holders = holders or [*objects(spec, "containers"), *objects(spec, "initContainers")]
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    guaranteed = True
    for holder in holders:
        resources = part(holder, "resources")
        _add(requests, resources.get("requests"))
        found = _add(limits, resources.get("limits"))
        guaranteed = guaranteed and found == 2
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _add(total: dict[str, Quantity], amounts: JsonObject | None) -> int:
    """Add what counts; tells how many of CPU and memory there were."""
    found = 0
    for name in ("cpu", "memory"):
        value = (amounts or {}).get(name)
        if value is None:
            continue
        try:
            amount = quantity(value)
        except QuantityError:
            continue
        if amount.nano > 0:
            found += 1
            total[name] = total[name] + amount if name in total else amount
    return found


def _request_what_is_limited(resources: JsonObject) -> None:
    if limits := resources.get("limits"):
        requests = inside(resources, "requests")
        for name, value in limits.items():
            requests.setdefault(name, value)


def _fill_pod_requests(spec: JsonObject) -> None:
    """Requests of the pod as a whole: the sum of its containers', else its limits."""
    resources = part(spec, "resources")
    limits: JsonObject = part(resources, "limits")
    if not limits:
        return
    requests = inside(resources, "requests")
    for name in ("cpu", "memory"):
        amounts = [
            quantity(value)
            for container in objects(spec, "containers")
            if (value := at(container, "resources", "requests", name)) is not None
        ]
        if amounts and name not in requests:
            requests[name] = str(sum(amounts[1:], amounts[0]))
    for name, value in limits.items():
        requests.setdefault(name, value)


def tolerate_lost_nodes(spec: JsonObject) -> None:
    """Let a pod stay for a while on a node that cannot be reached, unless it says otherwise."""
    tolerations: list[JsonObject] = list(spec.get("tolerations") or ())
    missing = [
        key
        for key in _TOLERATED
        if not any(
            each.get("key") in (None, "", key) and each.get("effect") in (None, "", "NoExecute")
            for each in tolerations
        )
    ]
    tolerations += [
        {
            "key": key,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": _TOLERATED_SECONDS,
        }
        for key in missing
    ]
    if missing:
        spec["tolerations"] = tolerations


def _gated(created: str | None) -> JsonObject:
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": created,
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }
