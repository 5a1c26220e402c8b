"""ValidatingAdmissionPolicies, asked about every write they match."""

from kilonova.local.admission.chain import Attributes
from kilonova.local.admission.policies.evaluation import Finding, findings
from kilonova.local.admission.policies.source import Invocation, PolicySource, Unusable
from kilonova.local.admission.scope import Scope
from kilonova.local.errors import ApiError, forbidden

POLICIES = "validatingadmissionpolicies.admissionregistration.k8s.io"
BINDINGS = "validatingadmissionpolicybindings.admissionregistration.k8s.io"

_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}


class ValidatingPolicies:
    """Runs policies that may refuse."""

    def __init__(self, scope: Scope) -> None:
        self._source = PolicySource(scope, POLICIES, BINDINGS)

    async def validate(self, attributes: Attributes) -> None:
        refusals: list[ApiError] = []
        for policy in self._source.concerned(attributes):
            for each in self._source.invocations(policy, attributes):
                refusals += self._refusals(each, attributes)
        if refusals:
            raise refusals[0]

    def _refusals(self, each: Invocation | Unusable, attributes: Attributes) -> list[ApiError]:
        if isinstance(each, Unusable):
            if each.policy.ignores_failures:
                return []
            return [_refusal(attributes, each, Finding(each.message))]
        refusals: list[ApiError] = []
        actions = each.binding.actions
        for finding in findings(each.policy, *self._source.values(each, attributes)):
            if finding.always or "Deny" in actions:
                refusals.append(_refusal(attributes, each, finding))
            elif "Warn" in actions:
                attributes.warnings.append(
                    f"Validation failed for ValidatingAdmissionPolicy '{each.policy.name}' with "
                    f"binding '{each.binding.name}': {finding.message}"
                )
        return refusals


def _refusal(attributes: Attributes, by: Invocation | Unusable, finding: Finding) -> ApiError:
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
