"""The strategy of pods: what they have beside the spec."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, forbidden_value
from kilonova.local.apimachinery.names import dns_label_error
from kilonova.local.apimachinery.unstructured import (
    ensure_object,
    nested_object,
    nested_objects,
    nested_value,
    string_reader,
)
from kilonova.local.apiserver.kinds.core.pods.columns import (
    POD_COLUMNS,
    completed_condition,
    pod_cells,
)
from kilonova.local.apiserver.kinds.core.pods.spec_defaults import set_pod_spec_defaults
from kilonova.local.apiserver.kinds.core.pods.spec_validation import (
    validate_names_in_spec,
    validate_pod_spec,
)
from kilonova.local.apiserver.kinds.core.pods.update_validation import validate_pod_update
from kilonova.local.apiserver.kinds.core.pods.validated_spec_cache import ValidatedSpecCache
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, FieldReader, register_strategy
from kilonova.local.objects.qos import qos_class
from kilonova.local.objects.tolerations import add_default_tolerations
from kilonova.local.quota.resource_lists import set_default_requests


def _pod_ip(pod: JsonObject) -> str:
    addresses = nested_objects(pod, "status", "podIPs")
    return addresses[0].get("ip", "") if addresses else ""


@register_strategy("", "Pod")
class PodStrategy(BuiltinStrategy):
    """Pods start Pending, are bound through `/binding`, and are deleted with a grace period."""

    returns_deleted_object = True
    has_graceful_deletion = True
    has_generation = True
    columns = POD_COLUMNS
    selectable_fields: Mapping[str, FieldReader] = {
        "spec.nodeName": string_reader("spec", "nodeName"),
        "spec.restartPolicy": string_reader("spec", "restartPolicy"),
        "spec.schedulerName": string_reader("spec", "schedulerName"),
        "spec.serviceAccountName": string_reader("spec", "serviceAccountName"),
        "spec.hostNetwork": lambda pod: str(bool(nested_value(pod, "spec", "hostNetwork"))).lower(),
        "status.phase": string_reader("status", "phase"),
        "status.podIP": _pod_ip,
        "status.nominatedNodeName": string_reader("status", "nominatedNodeName"),
    }
    indexed_fields = frozenset({"spec.nodeName"})

    def set_defaults(self, obj: JsonObject) -> None:
        spec = ensure_object(obj, "spec")
        set_pod_spec_defaults(spec)
        spec.setdefault("enableServiceLinks", True)
        if spec.get("hostNetwork"):
            _default_host_ports(spec)
        set_default_requests(spec)

    def prepare_create(self, obj: JsonObject) -> None:
        spec = obj["spec"]
        add_default_tolerations(spec)
        if not spec.get("priorityClassName"):
            spec.setdefault("priority", 0)
            spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
        status: JsonObject = {"phase": "Pending", "qosClass": qos_class(spec)}
        obj["status"] = status
        if spec.get("schedulingGates"):
            status["conditions"] = [
                _scheduling_gated_condition(obj["metadata"].get("creationTimestamp"))
            ]

    def prepare_update(self, new: JsonObject, old: JsonObject) -> None:
        super().prepare_update(new, old)
        add_default_tolerations(new["spec"])
        for field in ("priority", "preemptionPolicy"):
            if field in old["spec"]:
                new["spec"].setdefault(field, old["spec"][field])

    def prepare_status(self, new: JsonObject, old: JsonObject) -> None:
        super().prepare_status(new, old)
        if owners := old["metadata"].get("ownerReferences"):
            new["metadata"]["ownerReferences"] = owners
        else:
            new["metadata"].pop("ownerReferences", None)
        status, before = ensure_object(new, "status"), nested_object(old, "status")
        for field in ("qosClass", "observedGeneration"):
            if not status.get(field) and before.get(field):
                status[field] = before[field]

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        spec = nested_object(obj, "spec")
        if any(validate_names_in_spec(spec, "spec")):
            return _validate_spec(spec)
        return _validated_specs.validate(spec, _validate_spec)

    def validate_create(self, obj: JsonObject) -> list[FieldError]:
        if nested_objects(obj, "spec", "ephemeralContainers"):
            return [forbidden_value("spec.ephemeralContainers", "cannot be set on create")]
        return []

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        return validate_pod_update(new, old)

    def grace_seconds(self, obj: JsonObject, requested: int | None) -> int:
        if not nested_value(obj, "spec", "nodeName"):
            return 0
        if nested_value(obj, "status", "phase") in ("Failed", "Succeeded"):
            return 0
        grace = (
            nested_value(obj, "spec", "terminationGracePeriodSeconds")
            if requested is None
            else requested
        )
        return 1 if (grace or 0) < 0 else grace or 0

    def table_cells(self, obj: JsonObject, now: datetime) -> list[Any]:
        return pod_cells(obj, now)

    def row_conditions(self, obj: JsonObject) -> list[JsonObject]:
        return completed_condition(obj)

    def warnings(self, obj: JsonObject) -> list[str]:
        error = dns_label_error(obj["metadata"].get("name") or "a")
        if not error:
            return []
        return [
            "metadata.name: this is used in the Pod's hostname, which can result in surprising "
            f"behavior; a DNS label is recommended: [{error}]"
        ]


_validated_specs = ValidatedSpecCache()


def _validate_spec(spec: JsonObject) -> list[FieldError]:
    return validate_pod_spec(spec, "spec")


def _default_host_ports(spec: JsonObject) -> None:
    for container in (*nested_objects(spec, "containers"), *nested_objects(spec, "initContainers")):
        for port in nested_objects(container, "ports"):
            port.setdefault("hostPort", port.get("containerPort"))


def _scheduling_gated_condition(created: str | None) -> JsonObject:
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": created,
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }
