"""One policy run on one write with one parameter: what it finds wrong."""

from dataclasses import dataclass

from kilonova.local.admission.conditions import ConditionsFailed, evaluation_failure
from kilonova.local.admission.expressions import Values
from kilonova.local.admission.policies.definition import Compiled, Policy, Validation
from kilonova.local.schema.cel.environment import EvaluationError

_MESSAGE_LIMIT = 5 * 1024


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with a write. `always`: whatever the binding says, it is denied."""

    message: str
    reason: str = ""
    always: bool = False


def findings(policy: Policy, matching: Values, judging: Values) -> list[Finding]:
    """What the policy has against a write.

    `matching` are the values that its conditions see, `judging` those that its rules see.
    """
    try:
        if not policy.conditions.hold(matching):
            return []
    except ConditionsFailed as failure:
        return [Finding(str(failure))]
    found = [
        finding
        for validation in policy.validations
        if (finding := _judged(validation, judging, policy.ignores_failures)) is not None
    ]
    if not policy.ignores_failures:
        for annotation in policy.annotations:
            failure = _failure(annotation, judging)
            if failure:
                found.append(Finding(failure, always=True))
    return found


def _judged(validation: Validation, values: Values, ignores_failures: bool) -> Finding | None:
    rule = validation.rule
    if rule.program is None:
        return None if ignores_failures else Finding(f"compilation error: {rule.problem}")
    try:
        if values.run(rule.program) is True:
            return None
    except EvaluationError as error:
        return None if ignores_failures else Finding(evaluation_failure(rule.source, error))
    message = _message(validation.message_rule, values) or validation.message
    return Finding(message or f"failed expression: {rule.source.strip()}", validation.reason)


def _message(rule: Compiled | None, values: Values) -> str:
    """What the author's expression says, if that can be shown in one line."""
    if rule is None or rule.program is None:
        return ""
    try:
        value = values.run(rule.program)
    except EvaluationError:
        return ""
    message = value.strip() if isinstance(value, str) else ""
    if "\n" in message or len(message.encode()) > _MESSAGE_LIMIT:
        return ""
    return message


def _failure(annotation: Compiled, values: Values) -> str:
    """Why an audit annotation has no value. There is no audit log to put the value into."""
    if annotation.program is None:
        return f"compilation error: {annotation.problem}"
    try:
        values.run(annotation.program)
    except EvaluationError as error:
        return evaluation_failure(annotation.source, error)
    return ""
