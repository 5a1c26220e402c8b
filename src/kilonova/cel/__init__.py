"""CEL expressions: values, functions, compilation and evaluation (apiserver/pkg/cel).

What uses CEL builds an environment from it: its variables, and Kubernetes' `FUNCTIONS` with those
of its own. `environment.Environment` infers types, and compiles an expression to a `Program`, which
translates errors to Kubernetes' messages and meters the cost (rules of definitions, policies); or,
for what is evaluated very often (selectors of devices), without both. The runtime itself is
imported when the first expression is compiled.

Terms: an *opaque value* is one of a type that CEL lacks (a quantity, a version, an address); a
`CostPlan` specifies where an expression is metered, a `CostMeter` has the budget of one evaluation.
"""
