"""Checks an InferenceService where no API server does: fields, types and rules. Pure."""

import difflib
from collections.abc import Iterator, Sequence
from typing import Any, cast, get_args, get_origin

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.serving import InferenceServiceSpec
from kilonova.api.validation_rules import ValidationRule
from kilonova.yaml_files import describe_mismatch

_ROOT = "spec"


def check_spec(spec: JsonObject) -> list[str]:
    """What is wrong with a spec; nothing for a valid one."""
    problems = [*_find_unknown_fields(InferenceServiceSpec, spec, _ROOT)]
    if problems:
        return problems
    try:
        msgspec.convert(spec, InferenceServiceSpec)
    except msgspec.ValidationError as error:
        return [str(describe_mismatch(spec, InferenceServiceSpec, error, _ROOT))]
    return [*_find_violations(InferenceServiceSpec, spec, _ROOT)]


def _find_unknown_fields(type_: Any, value: object, path: str) -> Iterator[str]:
    for struct, found, where in _walk(type_, value, path):
        known = [each.encode_name for each in msgspec.structs.fields(struct)]
        for name in found:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                fix = f"do you mean {near[0]}?" if near else f"choose from {', '.join(known)}"
                yield f"{where}.{name}: unknown field: {fix}"


def _find_violations(type_: Any, value: object, path: str) -> Iterator[str]:
    for struct, found, where in _walk(type_, value, path):
        rules: Sequence[ValidationRule] = getattr(struct, "RULES", ())
        for rule in rules:
            if not _holds(rule, found):
                yield f"{where}{rule.field_path}: {rule.message}"


def _holds(rule: ValidationRule, value: JsonObject) -> bool:
    from kilonova.cel.environment import Environment  # slow, and needed for few services

    environment = Environment(("self",))
    expression = environment.compile_unmetered(rule.rule)
    return expression.eval(environment.bind({"self": value})).value() is True


def _walk(
    type_: Any, value: object, path: str
) -> Iterator[tuple[type[msgspec.Struct], JsonObject, str]]:
    """Objects whose types are Structs, with their places."""
    struct = _find_struct(type_)
    if struct is None:
        return
    if isinstance(value, list):
        for number, each in enumerate(cast("list[object]", value)):
            yield from _walk(struct, each, f"{path}[{number}]")
    elif isinstance(value, dict):
        fields = cast(JsonObject, value)
        yield struct, fields, path
        for each in msgspec.structs.fields(struct):
            if each.encode_name in fields:
                yield from _walk(each.type, fields[each.encode_name], f"{path}.{each.encode_name}")


def _find_struct(type_: Any) -> type[msgspec.Struct] | None:
    """The Struct of a type: itself, that of a list, an option or an annotation."""
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return type_
    if get_origin(type_) is dict:
        return None
    found = (_find_struct(each) for each in get_args(type_))
    return next((each for each in found if each is not None), None)
