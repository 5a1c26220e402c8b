"""Validation of instances, deployments and releases beyond their schemas. Pure."""

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from kilonova.api.inference_engine import (
    EngineSpec,
    InferenceEngineDeployment,
    InferenceEngineInstance,
    Release,
    UpdateStrategy,
    names,
)
from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.instances.admission.engine import EngineRules, validate_release_name
from kilonova.kube.admission import FieldError
from kilonova.kube.admission.field_errors import ValidationResult, invalid_value, required
from kilonova.kube.admission.field_rules import (
    is_zero_amount,
    validate_amount,
    validate_duration,
)
from kilonova.kube.admission.syntax import check_dns_label

T = TypeVar("T", InferenceEngineInstance, InferenceEngineDeployment, Release)

_NAME = "metadata.name"
_STRATEGY = "spec.strategy"


def validate_instance(
    obj: JsonObject, old: JsonObject | None, rules: EngineRules
) -> ValidationResult:
    """Errors and warnings of an instance; `old` is the one that it replaces."""
    instance = _decode(obj, old, InferenceEngineInstance)
    if not isinstance(instance, InferenceEngineInstance):
        return instance
    errors = [*_validate_name(instance.metadata, names.MAX_NAME_LENGTH, "pods")]
    errors += rules.validate(instance.spec, "spec")
    return ValidationResult(tuple(errors), tuple(_list_warnings(instance.spec, "spec")))


def validate_deployment(
    obj: JsonObject, old: JsonObject | None, rules: EngineRules
) -> ValidationResult:
    """Errors and warnings of a deployment; `old` is the one that it replaces."""
    deployment = _decode(obj, old, InferenceEngineDeployment)
    if not isinstance(deployment, InferenceEngineDeployment):
        return deployment
    spec = deployment.spec
    limit = names.MAX_DEPLOYMENT_NAME_LENGTH
    errors = [*_validate_name(deployment.metadata, limit, "instances")]
    errors += _validate_strategy(spec.strategy)
    errors += validate_release_name(spec.release, "spec.release")
    warnings = [*_list_strategy_warnings(spec.strategy)]
    if spec.template is None:
        if not spec.release:
            rule = "set template, or name a release of this cluster"
            errors.append(required("spec.template", rule))
    else:
        errors += rules.validate(spec.template, "spec.template")
        warnings += _list_warnings(spec.template, "spec.template")
        if spec.release and spec.template.release not in ("", spec.release):
            rule = f"must be that of spec.release, {spec.release}: leave it out"
            errors.append(invalid_value("spec.template.release", spec.template.release, rule))
    return ValidationResult(tuple(errors), tuple(warnings))


def validate_release(
    obj: JsonObject, old: JsonObject | None, rules: EngineRules
) -> ValidationResult:
    """Errors and warnings of a release; its schema rejects changes."""
    release = _decode(obj, old, Release)
    if not isinstance(release, Release):
        return release
    errors = list(validate_release_name(release.metadata.name, _NAME))
    errors += rules.validate(release.spec, "spec")
    if release.spec.release not in ("", release.metadata.name):
        rule = f"must be the name of the release itself, {release.metadata.name}: leave it out"
        errors.append(invalid_value("spec.release", release.spec.release, rule))
    return ValidationResult(tuple(errors), tuple(_list_warnings(release.spec, "spec")))


def _decode(obj: JsonObject, old: JsonObject | None, type_: type[T]) -> T | ValidationResult:
    """The decoded object, or the result if there is nothing to validate.

    What was admitted by former rules, or while a plug-in was there, may still be changed in other
    parts, and deleted.
    """
    metadata: dict[str, Any] = {"uid": "", "resourceVersion": "", **obj.get("metadata", {})}
    metadata.setdefault("name", metadata.get("generateName", ""))
    if metadata.get("deletionTimestamp") is not None:
        return ValidationResult()
    if old is not None and old.get("spec") == obj.get("spec"):
        return ValidationResult()
    try:
        return msgspec.convert({**obj, "metadata": metadata}, type_)
    except msgspec.ValidationError as error:
        # Those that violate the schema do not get here as a rule.
        return ValidationResult((invalid_value("", str(obj.get("kind", "")), str(error)),))


def _validate_name(metadata: Metadata, limit: int, parts: str) -> Iterator[FieldError]:
    name = metadata.name
    if problem := check_dns_label(name):
        yield invalid_value(_NAME, name, problem)
    elif len(name) > limit:
        rule = f"must be no more than {limit} characters, as the names of its {parts} are longer"
        yield invalid_value(_NAME, name, rule)


def _validate_strategy(strategy: UpdateStrategy) -> Iterator[FieldError]:
    yield from validate_amount(f"{_STRATEGY}.maxUnavailable", strategy.max_unavailable, 100)
    yield from validate_amount(f"{_STRATEGY}.maxSurge", strategy.max_surge)
    if (
        strategy.type == "RollingReplace"
        and is_zero_amount(strategy.max_unavailable, default=1)
        and is_zero_amount(strategy.max_surge, default=0)
    ):
        rule = "must not be 0 if maxSurge is 0: no instance could be replaced"
        yield invalid_value(f"{_STRATEGY}.maxUnavailable", strategy.max_unavailable, rule)
    yield from validate_duration(f"{_STRATEGY}.progressDeadline", strategy.progress_deadline)


def _list_strategy_warnings(strategy: UpdateStrategy) -> Iterator[str]:
    if strategy.type == "Recreate" and not is_zero_amount(strategy.max_surge, default=0):
        yield (
            f"{_STRATEGY}.maxSurge has no effect with type Recreate: all instances are deleted "
            "before others are created"
        )


def _list_warnings(spec: EngineSpec, path: str) -> Iterator[str]:
    if spec.accelerator is not None and spec.accelerator.count == 0:
        yield f"{path}.accelerator.count is 0: agents get no accelerator, and may share nodes"
