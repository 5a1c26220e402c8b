"""Policies: rules in CEL that may refuse a write, or change its object.

A *policy* says what is right, for which writes it can be asked; a *binding* puts it to work, where
and with which *parameters*. A policy is run once for each parameter of each of its bindings. What
a validating one finds wrong is denied, warned of, or only noted, as the binding says; a mutating
one has *mutations*, each a JSON patch or a part of the object to be merged into it.
"""

from kilonova.local.admission.policies.mutating import MutatingPolicies
from kilonova.local.admission.policies.validating import ValidatingPolicies

__all__ = ["MutatingPolicies", "ValidatingPolicies"]
