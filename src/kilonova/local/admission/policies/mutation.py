"""What a mutation of a policy makes of an object."""

from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.local.admission.conditions import evaluation_failure
from kilonova.local.admission.expressions import Values, plain
from kilonova.local.admission.policies.definition import Mutation
from kilonova.local.admission.policies.literals import type_of, untyped
from kilonova.local.apply import Shape, shape_of
from kilonova.local.apply.elements import shown as shown_step
from kilonova.local.apply.merge import merged
from kilonova.local.apply.typed import check_applied
from kilonova.local.errors import ApiError
from kilonova.local.patch import PatchError, copied, json_patch
from kilonova.local.schema.cel.environment import EvaluationError
from kilonova.local.schema.node import Schema

_TEST_FAILED = ": test failed"


class MutationFailed(Exception):
    """A mutation that cannot be made; the message says why."""


def mutated(mutation: Mutation, obj: JsonObject, schema: Schema, values: Values) -> JsonObject:
    """The object as the mutation leaves it; `obj` stays as it is. Raises `MutationFailed`."""
    rule = mutation.rule
    if rule.program is None:
        raise MutationFailed(rule.problem)
    try:
        made = plain(values.run(rule.program))
    except EvaluationError as error:
        raise MutationFailed(evaluation_failure(rule.source, error)) from None
    return _patched(obj, made) if mutation.is_patch else _applied(obj, made, schema)


def _patched(obj: JsonObject, operations: list[JsonObject]) -> JsonObject:
    for step in operations:
        if name := type_of(step.get("value")):
            step["value"] = _fitting(step["value"], name)
    try:
        return json_patch(obj, operations)
    except PatchError as error:
        words = error.detail or error.message
        if words.endswith(_TEST_FAILED):
            return copied(obj)  # a test that fails takes the whole patch back, and no more
        raise MutationFailed(f"JSON Patch: {words}") from None


def _applied(obj: JsonObject, made: Any, schema: Schema) -> JsonObject:
    if not isinstance(made, dict):
        raise MutationFailed("unsupported return type from ApplyConfiguration expression")
    shape = shape_of(schema)
    applied: JsonObject = {
        **_fitting(made, "Object"),
        "kind": obj["kind"],
        "apiVersion": obj["apiVersion"],
    }
    try:
        check_applied(shape, applied)
    except ApiError as error:
        _, _, detail = error.message.partition("): ")
        words = f"failed to convert patch object to typed object: {detail}"
        raise MutationFailed(f"error applying patch: {words}") from None
    if atomics := _atomics(shape, applied, ""):
        words = f"may not mutate atomic arrays, maps or structs: {', '.join(atomics)}"
        raise MutationFailed(f"error applying patch: invalid ApplyConfiguration: {words}")
    return merged(shape, obj, applied)


def _fitting(value: Any, name: str) -> Any:
    """A value whose objects are of the types that their places ask for."""
    problems: list[str] = []
    value = untyped(value, name, problems)
    if problems:
        raise MutationFailed("type mismatch: " + "\n".join(problems))
    return value


def _atomics(shape: Shape, value: Any, path: str) -> list[str]:
    """Where something would be replaced as a whole, which nobody who writes a part means."""
    found: list[str] = []
    if isinstance(value, dict) and shape.is_map:
        if not shape.granular:
            found.append(path)
        for name, item in cast(JsonObject, value).items():
            if shape.declares(name):
                found += _atomics(shape.child(name), item, f"{path}{shown_step(f'f:{name}')}")
    elif isinstance(value, list) and shape.is_list:
        if not shape.associative:
            found.append(path)
        for index, item in enumerate(cast(list[Any], value)):
            found += _atomics(shape.item, item, f"{path}[{index}]")
    return found
