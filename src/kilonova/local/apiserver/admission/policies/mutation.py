"""Applies a mutation of a policy to an object."""

from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.cel.environment import EvaluationError
from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apimachinery.patch import PatchError, deep_copy, json_patch
from kilonova.local.apiserver.admission.expressions import ExpressionBindings, to_json
from kilonova.local.apiserver.admission.match_conditions import evaluation_error_message
from kilonova.local.apiserver.admission.policies.definition import Mutation
from kilonova.local.apiserver.admission.policies.literals import strip_types, type_name_of
from kilonova.local.apiserver.field_manager import MergeSchema, compile_merge_schema
from kilonova.local.apiserver.field_manager.merge import merge_objects
from kilonova.local.apiserver.field_manager.path_elements import format_element as shown_step
from kilonova.local.apiserver.field_manager.type_check import check_applied_object
from kilonova.local.apiserver.schema.node import Schema

_TEST_FAILED = ": test failed"


class MutationError(Exception):
    """A mutation that cannot be applied; the message states why."""


def apply_mutation(
    mutation: Mutation, obj: JsonObject, schema: Schema, values: ExpressionBindings
) -> JsonObject:
    """The object after the mutation; `obj` is not changed. Raises `MutationError`."""
    rule = mutation.expression
    if rule.program is None:
        raise MutationError(rule.problem)
    try:
        made = to_json(values.evaluate(rule.program))
    except EvaluationError as error:
        raise MutationError(evaluation_error_message(rule.source, error)) from None
    return (
        _apply_json_patch(obj, made)
        if mutation.is_patch
        else _apply_configuration(obj, made, schema)
    )


def _apply_json_patch(obj: JsonObject, operations: list[JsonObject]) -> JsonObject:
    for step in operations:
        if name := type_name_of(step.get("value")):
            step["value"] = _check_types(step["value"], name)
    try:
        return json_patch(obj, operations)
    except PatchError as error:
        message = error.detail or error.message
        if message.endswith(_TEST_FAILED):
            return deep_copy(obj)  # a failed test reverts the whole patch, and nothing else
        raise MutationError(f"JSON Patch: {message}") from None


def _apply_configuration(obj: JsonObject, configuration: Any, schema: Schema) -> JsonObject:
    if not isinstance(configuration, dict):
        raise MutationError("unsupported return type from ApplyConfiguration expression")
    shape = compile_merge_schema(schema)
    applied: JsonObject = {
        **_check_types(configuration, "Object"),
        "kind": obj["kind"],
        "apiVersion": obj["apiVersion"],
    }
    try:
        check_applied_object(shape, applied)
    except ApiError as error:
        _, _, detail = error.message.partition("): ")
        message = f"failed to convert patch object to typed object: {detail}"
        raise MutationError(f"error applying patch: {message}") from None
    if atomics := _atomic_paths(shape, applied, ""):
        message = f"may not mutate atomic arrays, maps or structs: {', '.join(atomics)}"
        raise MutationError(f"error applying patch: invalid ApplyConfiguration: {message}")
    return merge_objects(shape, obj, applied)


def _check_types(value: Any, name: str) -> Any:
    """A value whose objects have the types of their positions."""
    problems: list[str] = []
    value = strip_types(value, name, problems)
    if problems:
        raise MutationError("type mismatch: " + "\n".join(problems))
    return value


def _atomic_paths(shape: MergeSchema, value: Any, path: str) -> list[str]:
    """The paths that would be replaced as a whole, which is not intended in a partial object."""
    found: list[str] = []
    if isinstance(value, dict) and shape.is_map:
        if not shape.granular:
            found.append(path)
        for name, item in cast(JsonObject, value).items():
            if shape.declares_field(name):
                found += _atomic_paths(
                    shape.field_schema(name), item, f"{path}{shown_step(f'f:{name}')}"
                )
    elif isinstance(value, list) and shape.is_list:
        if not shape.associative:
            found.append(path)
        for index, item in enumerate(cast(list[Any], value)):
            found += _atomic_paths(shape.item_schema, item, f"{path}[{index}]")
    return found
