"""`matchConditions`: CEL expressions that decide whether a request matches."""

from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.cel.environment import CompileError, EvaluationError, Program
from kilonova.local.apiserver.admission.expressions import ExpressionBindings, ExpressionCompiler


class MatchConditionsError(Exception):
    """Some conditions failed to evaluate, and none is false."""


@dataclass(frozen=True, slots=True)
class MatchCondition:
    """One expression; `program` is None if it does not compile."""

    source: str
    program: Program | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class MatchConditions:
    """All must be true. A false one decides, even if others fail."""

    conditions: tuple[MatchCondition, ...]
    ignore_failures: bool

    def match(self, values: ExpressionBindings) -> bool:
        """Raises `MatchConditionsError`, unless failures are ignored: then the request does not
        match."""
        failures: list[str] = []
        for condition in self.conditions:
            if condition.program is None:
                failures.append(f"compilation error: {condition.error}")
                continue
            try:
                if values.evaluate(condition.program) is False:
                    return False
            except EvaluationError as error:
                failures.append(evaluation_error_message(condition.source, error))
        if failures and not self.ignore_failures:
            distinct = list(dict.fromkeys(failures))
            raise MatchConditionsError(
                distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
            )
        return not failures


def compile_match_conditions(
    sources: list[JsonObject], compiler: ExpressionCompiler, ignore_failures: bool
) -> MatchConditions:
    """Compile them; an invalid one fails when it is evaluated."""
    made: list[MatchCondition] = []
    for each in sources:
        source: str = each.get("expression", "")
        try:
            made.append(MatchCondition(source, compiler.compile(source, "bool")))
        except CompileError as error:
            made.append(MatchCondition(source, None, str(error)))
    return MatchConditions(tuple(made), ignore_failures)


def evaluation_error_message(source: str, error: EvaluationError) -> str:
    """Kubernetes' message for an expression that fails to evaluate."""
    return f"expression '{source}' resulted in error: {error}"
