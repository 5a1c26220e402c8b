"""A set with everything in it, changes of it, and what is wrong with them."""

from typing import Any

from kilonova.workloads.admission import Context, defaulted, validate_create
from kilonova.workloads.settings import Settings
from tests.workloads.admission.written import (
    JsonObject,
    clique,
    group,
    pod_clique_set,
    with_value,
)

CLIQUES = "spec.template.cliques"
GROUPS = "spec.template.podCliqueScalingGroups"
EXPLICIT = {"cliqueStartupType": "CliqueStartupTypeExplicit"}
LABEL_RULE = (
    "must consist of lower case letters, digits or '-', and start and end with a letter or digit "
    "(regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
REQUESTS = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}


def claim_template(name: str, spec: Any = REQUESTS) -> JsonObject:
    return {"name": name, "templateSpec": {"spec": spec}}


def shared(name: str, **more: Any) -> JsonObject:
    return {"name": name, "scope": "AllReplicas", **more}


def found(obj: JsonObject, settings: Settings | None = None) -> list[str]:
    """What is wrong with a new set."""
    findings = validate_create(defaulted(obj), Context(settings or Settings()))
    return [f"{each.field}: {each.message}" for each in findings.problems]


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
            resourceSharing=[shared("gpus", filter={"childCliqueNames": ["worker"]})],
            rollingUpdate={"maxUnavailable": "50%", "progressDeadline": "10m"},
        ),
    ),
    resourceClaimTemplates=[claim_template("gpus")],
    resourceSharing=[
        shared("gpus", filter={"childScalingGroupNames": ["engine"]}),
        shared("external", namespace="elsewhere"),
    ],
    backoffLimit=0,
    ttlSecondsAfterFinished=0,
    **EXPLICIT,
)


def changed(path: str, value: Any) -> JsonObject:
    """That set with one field set."""
    return with_value(FULL, path, value)
