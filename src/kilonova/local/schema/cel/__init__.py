"""CEL: expressions that judge objects.

Words: a *rule* is an expression in a schema (`x-kubernetes-validations`), `RuleSet` all rules
of one schema. An `Expression` stands for itself, with variables of its own. Both are compiled
by an `Environment` to a `Program`. The runtime is loaded when the first of them is compiled,
so that a server whose custom kinds have no rules never pays for it.
"""

from kilonova.local.schema.cel.environment import CompileError, EvaluationError
from kilonova.local.schema.cel.expression import Expression
from kilonova.local.schema.cel.rules import RuleSet, rule_set

__all__ = ["CompileError", "EvaluationError", "Expression", "RuleSet", "rule_set"]
