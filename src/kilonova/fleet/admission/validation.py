"""Validation of Deployments of the fleet beyond their schema. Pure."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from kilonova.api.durations import parse_duration
from kilonova.api.inference_engine import Deployment, DeploymentSpec, Rollout, names
from kilonova.api.json import JsonObject
from kilonova.fleet.planning.waves import ALL, REMAINING
from kilonova.kube.admission import FieldError
from kilonova.kube.admission.field_errors import (
    ValidationResult,
    duplicate,
    invalid_value,
    required,
)
from kilonova.kube.admission.field_rules import validate_duration
from kilonova.kube.admission.syntax import check_dns_label

_NAME = "metadata.name"


def validate_deployment(obj: JsonObject, old: JsonObject | None) -> ValidationResult:
    """Errors and warnings of a deployment; `old` is the one that it replaces."""
    metadata: dict[str, Any] = {"uid": "", "resourceVersion": "", **obj.get("metadata", {})}
    metadata.setdefault("name", metadata.get("generateName", ""))
    if metadata.get("deletionTimestamp") is not None:
        return ValidationResult()
    if old is not None and old.get("spec") == obj.get("spec"):
        return ValidationResult()
    try:
        deployment = msgspec.convert({**obj, "metadata": metadata}, Deployment)
    except msgspec.ValidationError as error:
        # Those that violate the schema do not get here as a rule.
        return ValidationResult((invalid_value("", str(obj.get("kind", "")), str(error)),))
    errors = [
        *_validate_name(deployment.metadata.name),
        *_validate_placements(deployment.spec),
        *_validate_rollout(deployment.spec.rollout),
        *_validate_failover(deployment.spec),
    ]
    return ValidationResult(tuple(errors), tuple(_list_warnings(deployment.spec)))


def _validate_name(name: str) -> Iterator[FieldError]:
    """In each cluster there is an InferenceEngineDeployment of this name."""
    if problem := check_dns_label(name):
        yield invalid_value(_NAME, name, problem)
    elif len(name) > names.MAX_DEPLOYMENT_NAME_LENGTH:
        limit = names.MAX_DEPLOYMENT_NAME_LENGTH
        rule = f"must be no more than {limit} characters, as the names of its instances are longer"
        yield invalid_value(_NAME, name, rule)


def _validate_placements(spec: DeploymentSpec) -> Iterator[FieldError]:
    named = [each.cluster for each in spec.placements if each.cluster is not None]
    for name, count in sorted(Counter(named).items()):
        if count > 1:
            yield duplicate("spec.placements", name, "a cluster has one placement")
    minima = sum(each.min for each in spec.placements if each.cluster is not None)
    if spec.replicas is not None and minima > spec.replicas:
        rule = f"must not be less than the sum of the minima of spec.placements, {minima}"
        yield invalid_value("spec.replicas", spec.replicas, rule)


def _validate_rollout(rollout: Rollout) -> Iterator[FieldError]:
    path = "spec.rollout"
    yield from _validate_time(f"{path}.bakeTime", rollout.bake_time)
    yield from validate_duration(f"{path}.progressDeadline", rollout.progress_deadline)
    seen: set[str] = set()
    for index, wave in enumerate(rollout.waves):
        field = f"{path}.waves[{index}]"
        if wave.name in seen:
            yield duplicate(f"{field}.name", wave.name)
        elif wave.name in (ALL, REMAINING):
            rule = "is the name of the wave of the clusters that no other one has"
            yield invalid_value(f"{field}.name", wave.name, rule)
        seen.add(wave.name)
        if not wave.clusters and wave.cluster_selector is None:
            yield required(f"{field}.clusters", "name its clusters, or set clusterSelector")
        if wave.bake_time is not None:
            yield from _validate_time(f"{field}.bakeTime", wave.bake_time)


def _validate_failover(spec: DeploymentSpec) -> Iterator[FieldError]:
    yield from validate_duration("spec.failover.after", spec.failover.after)
    yield from _validate_time("spec.failover.failbackAfter", spec.failover.failback_after)


def _validate_time(path: str, text: str) -> Iterator[FieldError]:
    """A duration, which may be 0."""
    try:
        valid = parse_duration(text) >= 0
    except ValueError:
        valid = False
    if not valid:
        yield invalid_value(path, text, "must be a duration, such as 0s, 90s, 1h30m or 4h")


def _list_warnings(spec: DeploymentSpec) -> Iterator[str]:
    if spec.release in spec.mask:
        yield (
            f"spec.mask has spec.release, {spec.release}: clusters run the newest release of the "
            "history that is not masked"
        )
    limits = [each.max for each in spec.placements if each.cluster is not None]
    total = sum(limit for limit in limits if limit is not None)
    is_bounded = None not in limits and len(limits) == len(spec.placements) > 0
    if spec.replicas is not None and is_bounded and total < spec.replicas:
        yield f"spec.replicas is {spec.replicas}, and spec.placements allow no more than {total}"
