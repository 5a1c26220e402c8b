"""ValidatingAdmissionPolicies, evaluated on every write that they match."""

from kilonova.local.apimachinery.errors import ApiError, forbidden
from kilonova.local.apiserver.admission.chain import Attributes
from kilonova.local.apiserver.admission.context import AdmissionContext
from kilonova.local.apiserver.admission.policies.evaluation import PolicyViolation, evaluate_policy
from kilonova.local.apiserver.admission.policies.source import (
    InvalidInvocation,
    Invocation,
    PolicySource,
)

POLICIES = "validatingadmissionpolicies.admissionregistration.k8s.io"
BINDINGS = "validatingadmissionpolicybindings.admissionregistration.k8s.io"

_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}


class ValidatingPolicyPlugin:
    """Evaluates policies that may reject a write."""

    def __init__(self, context: AdmissionContext) -> None:
        self._source = PolicySource(context, POLICIES, BINDINGS)

    async def validate(self, attributes: Attributes) -> None:
        denials: list[ApiError] = []
        for policy in self._source.matching_policies(attributes):
            for each in self._source.invocations(policy, attributes):
                denials += self._denials(each, attributes)
        if denials:
            raise denials[0]

    def _denials(
        self, invocation: Invocation | InvalidInvocation, attributes: Attributes
    ) -> list[ApiError]:
        if isinstance(invocation, InvalidInvocation):
            if invocation.policy.ignore_failures:
                return []
            return [_denied_error(attributes, invocation, PolicyViolation(invocation.message))]
        denials: list[ApiError] = []
        actions = invocation.binding.actions
        for finding in evaluate_policy(
            invocation.policy, *self._source.bindings(invocation, attributes)
        ):
            if finding.always_deny or "Deny" in actions:
                denials.append(_denied_error(attributes, invocation, finding))
            elif "Warn" in actions:
                attributes.warnings.append(
                    "Validation failed for ValidatingAdmissionPolicy "
                    f"'{invocation.policy.name}' with "
                    f"binding '{invocation.binding.name}': {finding.message}"
                )
        return denials


def _denied_error(
    attributes: Attributes, by: Invocation | InvalidInvocation, finding: PolicyViolation
) -> ApiError:
    with_binding = f" with binding '{by.binding.name}'" if by.binding else ""
    message = (
        f"ValidatingAdmissionPolicy '{by.policy.name}'{with_binding} denied request: "
        f"{finding.message}"
    )
    kind = attributes.target.kind
    error = forbidden(kind.group, kind.plural, attributes.name or "Unknown", message)
    error.reason = finding.reason or "Invalid"
    error.code = _CODES.get(error.reason, 422)
    error.details = {**(error.details or {}), "causes": [{"message": message}]}
    return error
