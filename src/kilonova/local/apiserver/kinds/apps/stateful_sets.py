"""StatefulSets."""

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, forbidden_value, invalid_value
from kilonova.local.apimachinery.names import dns_label_error
from kilonova.local.apimachinery.unstructured import ensure_object, nested_object, nested_objects
from kilonova.local.apiserver.kinds.columns import AGE, NAME, ratio_column, template_columns
from kilonova.local.apiserver.kinds.core.persistent_volumes import set_claim_defaults
from kilonova.local.apiserver.kinds.core.pod_templates import validate_workload
from kilonova.local.apiserver.kinds.core.pods.spec_defaults import set_template_defaults
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy
from kilonova.local.apiserver.kinds.validation import validate_not_negative, validate_replica_counts

_MUTABLE_FIELDS = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


@register_strategy("apps", "StatefulSet")
class StatefulSetStrategy(BuiltinStrategy):
    """Runs pods with stable names and volumes."""

    has_generation = True
    columns = (
        NAME,
        ratio_column("Ready", ("status", "readyReplicas"), ("spec", "replicas")),
        AGE,
        *template_columns("spec", "template"),
    )

    def set_defaults(self, obj: JsonObject) -> None:
        spec = ensure_object(obj, "spec")
        spec.setdefault("podManagementPolicy", "OrderedReady")
        update = ensure_object(spec, "updateStrategy")
        if not update.get("type"):
            update["type"] = "RollingUpdate"
            ensure_object(update, "rollingUpdate")
        if update["type"] == "RollingUpdate" and update.get("rollingUpdate") is not None:
            update["rollingUpdate"].setdefault("partition", 0)
        policy = ensure_object(spec, "persistentVolumeClaimRetentionPolicy")
        policy.setdefault("whenDeleted", "Retain")
        policy.setdefault("whenScaled", "Retain")
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", 10)
        set_template_defaults(ensure_object(spec, "template"))
        for claim in nested_objects(spec, "volumeClaimTemplates"):
            claim.update(kind="PersistentVolumeClaim", apiVersion="v1")
            set_claim_defaults(claim)

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        spec = nested_object(obj, "spec")
        problems: list[FieldError] = []
        policy = spec.get("podManagementPolicy")
        if policy not in ("OrderedReady", "Parallel"):
            detail = "must be 'OrderedReady' or 'Parallel'"
            problems.append(invalid_value("spec.podManagementPolicy", policy, detail))
        update = nested_object(spec, "updateStrategy")
        if update.get("type") not in ("RollingUpdate", "OnDelete"):
            detail = "must be 'RollingUpdate' or 'OnDelete'"
            go_value = {"Type": update.get("type"), "RollingUpdate": update.get("rollingUpdate")}
            problems.append(invalid_value("spec.updateStrategy", go_value, detail))
        elif update["type"] == "OnDelete" and update.get("rollingUpdate") is not None:
            detail = "only allowed for updateStrategy 'RollingUpdate'"
            problems.append(
                invalid_value("spec.updateStrategy.rollingUpdate", update["rollingUpdate"], detail)
            )
        problems += validate_not_negative(spec, "spec", ["replicas", "minReadySeconds"])
        service = spec.get("serviceName")
        if service and (error := dns_label_error(service)):
            problems.append(invalid_value("spec.serviceName", service, error))
        problems += validate_workload(_with_claim_volumes(spec), "statefulset", "StatefulSet")
        counts = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
        return problems + validate_replica_counts(nested_object(obj, "status"), counts)

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        fixed = [
            {
                key: value
                for key, value in nested_object(obj, "spec").items()
                if key not in _MUTABLE_FIELDS
            }
            for obj in (new, old)
        ]
        if fixed[0] == fixed[1]:
            return []
        mutable = ", ".join(f"'{field}'" for field in _MUTABLE_FIELDS[:-1])
        detail = (
            f"updates to statefulset spec for fields other than {mutable} "
            "and 'minReadySeconds' are forbidden"
        )
        return [forbidden_value("spec", detail)]

    def name_error(self, name: str) -> str | None:
        return dns_label_error(name)


def _with_claim_volumes(spec: JsonObject) -> JsonObject:
    """The spec as its pods will have it: a volume for each claim template."""
    claims: list[JsonObject] = [
        {"name": claim["metadata"].get("name", ""), "persistentVolumeClaim": {}}
        for claim in nested_objects(spec, "volumeClaimTemplates")
    ]
    template = nested_object(spec, "template")
    pod = nested_object(template, "spec")
    names = {claim["name"] for claim in claims}
    volumes = [
        volume for volume in nested_objects(pod, "volumes") if volume.get("name") not in names
    ]
    return {**spec, "template": {**template, "spec": {**pod, "volumes": [*claims, *volumes]}}}
