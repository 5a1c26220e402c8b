"""Rules judged when a definition is written: is each of them one that can be run?"""

from __future__ import annotations

from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, invalid_value, not_supported, required
from kilonova.local.schema.cel.environment import CompileError
from kilonova.local.schema.cel.paths import PathError, resolve_path
from kilonova.local.schema.cel.rules import EXTENSION, MessageError, compile_rule
from kilonova.local.schema.node import Schema

_REASONS = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
]


def rule_problems(schema: Schema, path: str) -> list[Problem]:
    """What is wrong with the rules of a resource's schema, which stands at `path`.

    The rules of a place are compiled only if those there and below are well formed.
    """
    malformed, failing = _review(schema, path, True, "")
    return malformed + failing


def _review(
    schema: Schema, path: str, root: bool, uncorrelated: str
) -> tuple[list[Problem], list[Problem]]:
    """`uncorrelated` is the outermost list around that has no keys."""
    malformed: list[Problem] = []
    failing: list[Problem] = []
    below = [
        (child, f"{path}.properties[{name}]", uncorrelated)
        for name, child in schema.properties.items()
    ]
    if schema.additional is not None:
        below.insert(0, (schema.additional, f"{path}.additionalProperties", uncorrelated))
    if schema.items is not None:
        outermost = uncorrelated or ("" if schema.list_type == "map" else path)
        below.append((schema.items, f"{path}.items", outermost))
    for child, child_path, outermost in below:
        shapes, failures = _review(child, child_path, child.embedded_resource, outermost)
        malformed += shapes
        failing += failures
    rules: list[JsonObject] = schema.source.get(EXTENSION) or []
    for index, rule in enumerate(rules):
        malformed += _malformed(rule, schema, f"{path}.{EXTENSION}[{index}]")
    if not malformed:
        for index, rule in enumerate(rules):
            failing += _failing(rule, schema, f"{path}.{EXTENSION}[{index}]", root, uncorrelated)
    return malformed, failing


def _malformed(rule: JsonObject, schema: Schema, path: str) -> list[Problem]:
    problems: list[Problem] = []
    text, message = rule.get("rule", "").strip(), rule.get("message", "")
    if not text:
        problems.append(required(f"{path}.rule", "rule is not specified"))
    elif message and not message.strip():
        problems.append(invalid_value(f"{path}.message", message, "must be non-empty if specified"))
    elif _has_line_breaks(message.strip()):
        problems.append(invalid_value(f"{path}.message", message, "must not contain line breaks"))
    elif _has_line_breaks(text) and not message.strip():
        detail = "message must be specified if rule contains line breaks"
        problems.append(required(f"{path}.message", detail))
    expression = rule.get("messageExpression", "")
    if expression and not expression.strip():
        detail = "messageExpression must be non-empty if specified"
        problems.append(required(f"{path}.messageExpression", detail))
    if (reason := rule.get("reason")) is not None and reason not in _REASONS:
        problems.append(not_supported(f"{path}.reason", reason, _REASONS))
    return problems + _malformed_path(rule.get("fieldPath", ""), schema, f"{path}.fieldPath")


def _malformed_path(text: str, schema: Schema, path: str) -> list[Problem]:
    if not text:
        return []
    problems: list[Problem] = []
    if not text.strip():
        problems.append(invalid_value(path, text, "must be non-empty if specified"))
    if _has_line_breaks(text):
        problems.append(invalid_value(path, text, "must not contain line breaks"))
    try:
        resolve_path(text, schema)
    except PathError:
        problems.append(invalid_value(path, text, "must be a valid path"))
    return problems


def _failing(
    rule: JsonObject, schema: Schema, path: str, root: bool, uncorrelated: str
) -> list[Problem]:
    try:
        compiled = compile_rule(rule, schema, root)
    except MessageError as error:
        return [_invalid_rule(f"{path}.messageExpression", rule, str(error))]
    except CompileError as error:
        return [_invalid_rule(f"{path}.rule", rule, str(error))]
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


def _invalid_rule(path: str, rule: JsonObject, detail: str) -> Problem:
    """Kubernetes shows the rule as its internal type is printed, with Go's names."""
    shown: dict[str, Any] = {
        "Rule": rule["rule"],
        "Message": rule.get("message", ""),
        "MessageExpression": rule.get("messageExpression", ""),
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath", ""),
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
    text = msgspec.json.encode(shown).decode()
    text = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return Problem(path, "FieldValueInvalid", f"Invalid value: {text}: {detail}")


def _has_line_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text
