"""Validation of InferenceServices beyond their schema. Pure."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.serving import InferenceService
from kilonova.kube.admission import FieldError
from kilonova.kube.admission.field_errors import ValidationResult, invalid_value
from kilonova.kube.admission.syntax import check_dns_label
from kilonova.serving.admission.access import validate_access
from kilonova.serving.admission.durations import validate_durations
from kilonova.serving.admission.gateway import validate_gateway
from kilonova.serving.admission.groups import validate_group
from kilonova.serving.admission.ineffective_fields import list_warnings
from kilonova.serving.admission.resources import validate_resources
from kilonova.serving.admission.texts import validate_texts

_NAME = "metadata.name"


def validate_service(obj: JsonObject, old: JsonObject | None = None) -> ValidationResult:
    """Errors and warnings of a service; `old` is the one that it replaces.

    What was admitted by former rules may still be changed in other parts, and deleted.
    """
    metadata: JsonObject = {"uid": "", "resourceVersion": "", **obj.get("metadata", {})}
    metadata.setdefault("name", metadata.get("generateName", ""))
    if metadata.get("deletionTimestamp") is not None:
        return ValidationResult()
    if old is not None and old.get("spec") == obj.get("spec"):
        return ValidationResult()
    try:
        service = msgspec.convert({**obj, "metadata": metadata}, InferenceService)
    except msgspec.ValidationError as error:
        # What violates the schema does not get here as a rule; bounds that are excluded do.
        return ValidationResult((_describe(error, obj),))
    errors = [*_validate_name(service.metadata.name), *_list_errors(service)]
    return ValidationResult(tuple(errors), tuple(list_warnings(service.spec)))


def _describe(error: msgspec.ValidationError, obj: JsonObject) -> FieldError:
    rule, _, path = str(error).partition(" - at `$.")
    field = path.rstrip("`")
    if not field:
        return invalid_value("", str(obj.get("kind", "")), rule)
    value: Any = obj
    for step in re.findall(r"[^.\[\]]+", field):
        value = value[int(step) if step.isdecimal() else step]
    return invalid_value(field, value, rule)


def _list_errors(service: InferenceService) -> Iterator[FieldError]:
    spec = service.spec
    for index, group in enumerate(spec.servers):
        yield from validate_group(group, f"spec.servers[{index}]", service.metadata.name)
    yield from validate_gateway(spec, "spec.gateway")
    yield from validate_access(spec, "spec")
    yield from validate_durations(spec)
    yield from validate_resources(spec)
    yield from validate_texts(spec)


def _validate_name(name: str) -> Iterator[FieldError]:
    if problem := check_dns_label(name):
        yield invalid_value(_NAME, name, problem)
    elif not name[0].isalpha():
        rule = "must start with a letter, because its Service has the same name"
        yield invalid_value(_NAME, name, rule)
