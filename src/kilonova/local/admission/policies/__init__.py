"""ValidatingAdmissionPolicies: rules in CEL that may refuse a write.

A *policy* says what is right, for which writes it can be asked; a *binding* puts it to work, where
and with which *parameters*. A policy is run once for each parameter of each of its bindings. What
it finds wrong is denied, warned of, or only noted, as the binding says.
"""

from kilonova.local.admission.policies.validating import ValidatingPolicies

__all__ = ["ValidatingPolicies"]
