"""Validation of rules when a definition is written."""

from __future__ import annotations

from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.cel.environment import CompileError
from kilonova.local.apimachinery.errors import (
    FieldError,
    invalid_value,
    not_supported_value,
    required_value,
)
from kilonova.local.apiserver.schema.cel.field_paths import PathError, resolve_path
from kilonova.local.apiserver.schema.cel.rules import EXTENSION, MessageError, compile_rule
from kilonova.local.apiserver.schema.node import Schema

_REASONS = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
]


def validate_rules(schema: Schema, path: str) -> list[FieldError]:
    """Validate the rules of a resource's schema at `path`.

    The rules of a node are compiled only if those there and below are well-formed.
    """
    malformed, failing = _validate_node(schema, path, True, "")
    return malformed + failing


def _validate_node(
    schema: Schema, path: str, root: bool, uncorrelated: str
) -> tuple[list[FieldError], list[FieldError]]:
    """`uncorrelated` is the outermost enclosing list without keys."""
    malformed: list[FieldError] = []
    failing: list[FieldError] = []
    children = [
        (child, f"{path}.properties[{name}]", uncorrelated)
        for name, child in schema.properties.items()
    ]
    if schema.additional is not None:
        children.insert(0, (schema.additional, f"{path}.additionalProperties", uncorrelated))
    if schema.items is not None:
        child_uncorrelated = uncorrelated or ("" if schema.list_type == "map" else path)
        children.append((schema.items, f"{path}.items", child_uncorrelated))
    for child, child_path, child_uncorrelated in children:
        shapes, failures = _validate_node(
            child, child_path, child.embedded_resource, child_uncorrelated
        )
        malformed += shapes
        failing += failures
    rules: list[JsonObject] = schema.source.get(EXTENSION) or []
    for index, rule in enumerate(rules):
        malformed += _validate_rule_fields(rule, schema, f"{path}.{EXTENSION}[{index}]")
    if not malformed:
        for index, rule in enumerate(rules):
            failing += _compile_rule_errors(
                rule, schema, f"{path}.{EXTENSION}[{index}]", root, uncorrelated
            )
    return malformed, failing


def _validate_rule_fields(rule: JsonObject, schema: Schema, path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    text, message = rule.get("rule", "").strip(), rule.get("message", "")
    if not text:
        problems.append(required_value(f"{path}.rule", "rule is not specified"))
    elif message and not message.strip():
        problems.append(invalid_value(f"{path}.message", message, "must be non-empty if specified"))
    elif _has_line_breaks(message.strip()):
        problems.append(invalid_value(f"{path}.message", message, "must not contain line breaks"))
    elif _has_line_breaks(text) and not message.strip():
        detail = "message must be specified if rule contains line breaks"
        problems.append(required_value(f"{path}.message", detail))
    expression = rule.get("messageExpression", "")
    if expression and not expression.strip():
        detail = "messageExpression must be non-empty if specified"
        problems.append(required_value(f"{path}.messageExpression", detail))
    if (reason := rule.get("reason")) is not None and reason not in _REASONS:
        problems.append(not_supported_value(f"{path}.reason", reason, _REASONS))
    return problems + _validate_field_path(rule.get("fieldPath", ""), schema, f"{path}.fieldPath")


def _validate_field_path(text: str, schema: Schema, path: str) -> list[FieldError]:
    if not text:
        return []
    problems: list[FieldError] = []
    if not text.strip():
        problems.append(invalid_value(path, text, "must be non-empty if specified"))
    if _has_line_breaks(text):
        problems.append(invalid_value(path, text, "must not contain line breaks"))
    try:
        resolve_path(text, schema)
    except PathError:
        problems.append(invalid_value(path, text, "must be a valid path"))
    return problems


def _compile_rule_errors(
    rule: JsonObject, schema: Schema, path: str, root: bool, uncorrelated: str
) -> list[FieldError]:
    try:
        compiled = compile_rule(rule, schema, root)
    except MessageError as error:
        return [_invalid_rule_error(f"{path}.messageExpression", rule, str(error))]
    except CompileError as error:
        return [_invalid_rule_error(f"{path}.rule", rule, str(error))]
    if compiled.uses_old:
        if uncorrelated:
            detail = (
                "oldSelf cannot be used on the uncorrelatable portion of the schema within "
                + uncorrelated
            )
            return [invalid_value(f"{path}.rule", rule["rule"], detail)]
    elif (optional := rule.get("optionalOldSelf")) is not None:
        detail = "may not be set if oldSelf is not used in rule"
        return [invalid_value(f"{path}.optionalOldSelf", optional, detail)]
    return []


def _invalid_rule_error(path: str, rule: JsonObject, detail: str) -> FieldError:
    """Kubernetes prints the rule as its internal type, with Go's field names."""
    go_value: dict[str, Any] = {
        "Rule": rule["rule"],
        "Message": rule.get("message", ""),
        "MessageExpression": rule.get("messageExpression", ""),
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath", ""),
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
    text = msgspec.json.encode(go_value).decode()
    text = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return FieldError(path, "FieldValueInvalid", f"Invalid value: {text}: {detail}")


def _has_line_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text
