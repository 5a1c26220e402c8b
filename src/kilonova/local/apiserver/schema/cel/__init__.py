"""CEL rules in schemas, and what the API server adds to `kilonova.cel`.

Terms: a *rule* is an expression in a schema (`x-kubernetes-validations`), `RuleSet` all rules of
one schema. `environment` makes the environments that compile expressions; the runtime is loaded
when the first expression is compiled, so that servers without rules do not load it. Entry point:
`rule_set`.
"""

from kilonova.cel.environment import CompileError
from kilonova.local.apiserver.schema.cel.rules import RuleSet, rule_set

__all__ = ["CompileError", "RuleSet", "rule_set"]
