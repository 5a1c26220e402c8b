"""`matchConditions`: the last word on whether a write is of interest."""

from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.local.admission.expressions import Language, Values
from kilonova.local.schema.cel.environment import CompileError, EvaluationError, Program


class ConditionsFailed(Exception):
    """Conditions of which some came to no result, and none is false."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One expression; `program` is None where it does not compile."""

    source: str
    program: Program | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Conditions:
    """All must be true. One that is false decides, even where others fail."""

    conditions: tuple[Condition, ...]
    ignore_failures: bool

    def hold(self, values: Values) -> bool:
        """Raises `ConditionsFailed`, unless failures are to be ignored: then they do not hold."""
        failures: list[str] = []
        for condition in self.conditions:
            if condition.program is None:
                failures.append(f"compilation error: {condition.problem}")
                continue
            try:
                if values.run(condition.program) is False:
                    return False
            except EvaluationError as error:
                failures.append(evaluation_failure(condition.source, error))
        if failures and not self.ignore_failures:
            told = list(dict.fromkeys(failures))
            raise ConditionsFailed(told[0] if len(told) == 1 else f"[{', '.join(told)}]")
        return not failures


def compiled_conditions(
    sources: list[JsonObject], language: Language, ignore_failures: bool
) -> Conditions:
    """Compile them; one that is wrong fails when it is asked."""
    made: list[Condition] = []
    for each in sources:
        source: str = each.get("expression", "")
        try:
            made.append(Condition(source, language.compile(source, "bool")))
        except CompileError as error:
            made.append(Condition(source, None, str(error)))
    return Conditions(tuple(made), ignore_failures)


def evaluation_failure(source: str, error: EvaluationError) -> str:
    """Kubernetes' words for an expression that came to no result."""
    return f"expression '{source}' resulted in error: {error}"
