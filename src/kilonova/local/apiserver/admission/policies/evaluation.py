"""Evaluates one policy on one write with one parameter."""

from dataclasses import dataclass

from kilonova.cel.environment import EvaluationError
from kilonova.local.apiserver.admission.expressions import ExpressionBindings
from kilonova.local.apiserver.admission.match_conditions import (
    MatchConditionsError,
    evaluation_error_message,
)
from kilonova.local.apiserver.admission.policies.definition import (
    CompiledExpression,
    CompiledPolicy,
    Validation,
)

_MESSAGE_LIMIT = 5 * 1024


@dataclass(frozen=True, slots=True)
class PolicyViolation:
    """A violation of a policy. With `always_deny` it is denied whatever the binding specifies."""

    message: str
    reason: str = ""
    always_deny: bool = False


def evaluate_policy(
    policy: CompiledPolicy,
    match_bindings: ExpressionBindings,
    validation_bindings: ExpressionBindings,
) -> list[PolicyViolation]:
    """The violations of a policy by a write.

    `match_bindings` are the variables of its match conditions, `validation_bindings` those of its
    rules.
    """
    try:
        if not policy.conditions.match(match_bindings):
            return []
    except MatchConditionsError as failure:
        return [PolicyViolation(str(failure))]
    found = [
        finding
        for validation in policy.validations
        if (
            finding := _evaluate_validation(validation, validation_bindings, policy.ignore_failures)
        )
        is not None
    ]
    if not policy.ignore_failures:
        for annotation in policy.audit_annotations:
            failure = _audit_annotation_error(annotation, validation_bindings)
            if failure:
                found.append(PolicyViolation(failure, always_deny=True))
    return found


def _evaluate_validation(
    validation: Validation, values: ExpressionBindings, ignores_failures: bool
) -> PolicyViolation | None:
    rule = validation.expression
    if rule.program is None:
        return None if ignores_failures else PolicyViolation(f"compilation error: {rule.problem}")
    try:
        if values.evaluate(rule.program) is True:
            return None
    except EvaluationError as error:
        return (
            None
            if ignores_failures
            else PolicyViolation(evaluation_error_message(rule.source, error))
        )
    message = _evaluate_message(validation.message_expression, values) or validation.message
    return PolicyViolation(
        message or f"failed expression: {rule.source.strip()}", validation.reason
    )


def _evaluate_message(rule: CompiledExpression | None, values: ExpressionBindings) -> str:
    """The result of the message expression, if it is a single line."""
    if rule is None or rule.program is None:
        return ""
    try:
        value = values.evaluate(rule.program)
    except EvaluationError:
        return ""
    message = value.strip() if isinstance(value, str) else ""
    if "\n" in message or len(message.encode()) > _MESSAGE_LIMIT:
        return ""
    return message


def _audit_annotation_error(annotation: CompiledExpression, values: ExpressionBindings) -> str:
    """Why an audit annotation has no value. There is no audit log for the value."""
    if annotation.program is None:
        return f"compilation error: {annotation.problem}"
    try:
        values.evaluate(annotation.program)
    except EvaluationError as error:
        return evaluation_error_message(annotation.source, error)
    return ""
