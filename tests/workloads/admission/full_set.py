"""A set with all fields, changes of it, and its validation errors."""

from typing import Any

from kilonova.workloads.admission import ValidationContext, apply_defaults, validate_create
from kilonova.workloads.settings import OperatorSettings
from tests.workloads.admission.set_manifests import (
    JsonObject,
    clique,
    group,
    pod_clique_set,
    set_field,
)

CLIQUES = "spec.template.cliques"
GROUPS = "spec.template.podCliqueScalingGroups"
EXPLICIT = {"cliqueStartupType": "CliqueStartupTypeExplicit"}
LABEL_RULE = (
    "must consist of lower case letters, digits or '-', and start and end with a letter or digit "
    "(regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
REQUESTS = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}


def build_claim_template(name: str, spec: Any = REQUESTS) -> JsonObject:
    return {"name": name, "templateSpec": {"spec": spec}}


def build_sharing(name: str, **more: Any) -> JsonObject:
    return {"name": name, "scope": "AllReplicas", **more}


def validate_object(obj: JsonObject, settings: OperatorSettings | None = None) -> list[str]:
    """The validation errors of a new set."""
    result = validate_create(apply_defaults(obj), ValidationContext(settings or OperatorSettings()))
    return [f"{each.field}: {each.message}" for each in result.errors]


FULL = pod_clique_set(
    clique("router", 2, minAvailable=1, autoScalingConfig={"maxReplicas": 4}),
    clique("leader", startsAfter=["router"]),
    clique("worker", 3, minAvailable=2, startsAfter=["leader", "router"]),
    # Names that end in, or begin with, each other are as good as any.
    clique("leader-worker"),
    groups=(
        group(
            "engine",
            "leader",
            "worker",
            replicas=2,
            scaleConfig={"maxReplicas": 5},
            resourceSharing=[build_sharing("gpus", filter={"childCliqueNames": ["worker"]})],
            rollingUpdate={"maxUnavailable": "50%", "progressDeadline": "10m"},
        ),
    ),
    resourceClaimTemplates=[build_claim_template("gpus")],
    resourceSharing=[
        build_sharing("gpus", filter={"childScalingGroupNames": ["engine"]}),
        build_sharing("external", namespace="elsewhere"),
    ],
    backoffLimit=0,
    ttlSecondsAfterFinished=0,
    **EXPLICIT,
)


def with_changed_field(path: str, value: Any) -> JsonObject:
    """The full set with one field changed."""
    return set_field(FULL, path, value)
