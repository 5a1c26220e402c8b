"""StatefulSets."""

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, forbidden_field, invalid_value
from kilonova.local.kinds.columns import AGE, NAME, ratio, template_columns
from kilonova.local.kinds.persistentvolumes import fill_claim
from kilonova.local.kinds.podspec import fill_template
from kilonova.local.kinds.podtemplates import workload_problems
from kilonova.local.kinds.rules import not_negative, replica_problems
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import inside, objects, part
from kilonova.local.names import dns_label

_CHANGEABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


@strategy("apps", "StatefulSet")
class StatefulSets(Strategy):
    """Pods with names and storage of their own."""

    has_generation = True
    columns = (
        NAME,
        ratio("Ready", ("status", "readyReplicas"), ("spec", "replicas")),
        AGE,
        *template_columns("spec", "template"),
    )

    def fill(self, obj: JsonObject) -> None:
        spec = inside(obj, "spec")
        spec.setdefault("podManagementPolicy", "OrderedReady")
        update = inside(spec, "updateStrategy")
        if not update.get("type"):
            update["type"] = "RollingUpdate"
            inside(update, "rollingUpdate")
        if update["type"] == "RollingUpdate" and update.get("rollingUpdate") is not None:
            update["rollingUpdate"].setdefault("partition", 0)
        policy = inside(spec, "persistentVolumeClaimRetentionPolicy")
        policy.setdefault("whenDeleted", "Retain")
        policy.setdefault("whenScaled", "Retain")
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", 10)
        fill_template(inside(spec, "template"))
        for claim in objects(spec, "volumeClaimTemplates"):
            claim.update(kind="PersistentVolumeClaim", apiVersion="v1")
            fill_claim(claim)

    def problems(self, obj: JsonObject) -> list[Problem]:
        spec = part(obj, "spec")
        problems: list[Problem] = []
        policy = spec.get("podManagementPolicy")
        if policy not in ("OrderedReady", "Parallel"):
            detail = "must be 'OrderedReady' or 'Parallel'"
            problems.append(invalid_value("spec.podManagementPolicy", policy, detail))
        update = part(spec, "updateStrategy")
        if update.get("type") not in ("RollingUpdate", "OnDelete"):
            detail = "must be 'RollingUpdate' or 'OnDelete'"
            shown = {"Type": update.get("type"), "RollingUpdate": update.get("rollingUpdate")}
            problems.append(invalid_value("spec.updateStrategy", shown, detail))
        elif update["type"] == "OnDelete" and update.get("rollingUpdate") is not None:
            detail = "only allowed for updateStrategy 'RollingUpdate'"
            problems.append(
                invalid_value("spec.updateStrategy.rollingUpdate", update["rollingUpdate"], detail)
            )
        problems += not_negative(spec, "spec", ["replicas", "minReadySeconds"])
        service = spec.get("serviceName")
        if service and (trouble := dns_label(service)):
            problems.append(invalid_value("spec.serviceName", service, trouble))
        problems += workload_problems(_with_claims(spec), "statefulset", "StatefulSet")
        counts = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
        return problems + replica_problems(part(obj, "status"), counts)

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        fixed = [
            {key: value for key, value in part(obj, "spec").items() if key not in _CHANGEABLE}
            for obj in (new, old)
        ]
        if fixed[0] == fixed[1]:
            return []
        listed = ", ".join(f"'{field}'" for field in _CHANGEABLE[:-1])
        detail = (
            f"updates to statefulset spec for fields other than {listed} "
            "and 'minReadySeconds' are forbidden"
        )
        return [forbidden_field("spec", detail)]

    def valid_name(self, name: str) -> str | None:
        return dns_label(name)


def _with_claims(spec: JsonObject) -> JsonObject:
    """The spec as its pods will have it: a volume for each claim."""
    claims: list[JsonObject] = [
        {"name": claim["metadata"].get("name", ""), "persistentVolumeClaim": {}}
        for claim in objects(spec, "volumeClaimTemplates")
    ]
    template = part(spec, "template")
    pod = part(template, "spec")
    names = {claim["name"] for claim in claims}
    own = [volume for volume in objects(pod, "volumes") if volume.get("name") not in names]
    return {**spec, "template": {**template, "spec": {**pod, "volumes": [*claims, *own]}}}
