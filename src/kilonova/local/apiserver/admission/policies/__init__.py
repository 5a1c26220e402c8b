"""Admission policies: CEL rules that may reject a write, or change its object.

A *policy* has the rules and the writes that it applies to; a *binding* activates it, for a
selection of writes and with *parameters*. A policy is evaluated once for each parameter of each of
its bindings. The violations of a validating policy deny the request, warn, or are only audited, as
the binding specifies; a mutating policy has *mutations*, each a JSON patch or an apply
configuration.
"""

from kilonova.local.apiserver.admission.policies.mutating import MutatingPolicyPlugin
from kilonova.local.apiserver.admission.policies.validating import ValidatingPolicyPlugin

__all__ = ["MutatingPolicyPlugin", "ValidatingPolicyPlugin"]
