"""All ValidatingAdmissionPolicies with their bindings, asked about every write they match."""

from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.local.admission.chain import Attributes
from kilonova.local.admission.policies.definition import Binding, Policy, read_policy
from kilonova.local.admission.policies.evaluation import Finding, findings
from kilonova.local.admission.policies.params import Misconfigured, Params
from kilonova.local.admission.scope import Scope
from kilonova.local.errors import ApiError, forbidden, not_found
from kilonova.local.kinds.base import Kind
from kilonova.local.kinds.walk import part
from kilonova.local.storage import Event

POLICIES = "validatingadmissionpolicies.admissionregistration.k8s.io"
BINDINGS = "validatingadmissionpolicybindings.admissionregistration.k8s.io"

_EXEMPT = ("admissionregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io")
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}


@dataclass(frozen=True, slots=True)
class _Denial:
    policy: Policy
    binding: Binding | None
    finding: Finding


class ValidatingPolicies:
    """Runs policies. They are compiled when the first write after a change needs them."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._params = Params(scope.store, scope.catalog)
        self._policies = scope.store.collection(POLICIES)
        self._bindings = scope.store.collection(BINDINGS)
        self._compiled: list[Policy] | None = None
        self._by_resource: dict[tuple[str, str], list[Policy]] = {}
        for resource in (POLICIES, BINDINGS):
            scope.store.observe(resource, self._changed)

    async def mutate(self, attributes: Attributes) -> None:
        return

    async def validate(self, attributes: Attributes) -> None:
        if not self._bindings.entries:
            return
        denials: list[_Denial] = []
        for policy in self._concerned(attributes.target.kind):
            denials += self._denials(policy, attributes)
        if denials:
            raise _refusal(attributes, denials[0])

    def _concerned(self, kind: Kind) -> list[Policy]:
        if kind.group in _EXEMPT:
            return []
        key = (kind.group, kind.plural)
        found = self._by_resource.get(key)
        if found is None:
            found = self._by_resource[key] = [
                policy
                for policy in self._all()
                if self._scope.matcher.may_concern(policy.criteria, kind)
            ]
        return found

    def _all(self) -> list[Policy]:
        if self._compiled is None:
            bindings: dict[str, list[JsonObject]] = {}
            for entry in self._bindings.between(""):
                binding = entry.decode()
                bindings.setdefault(part(binding, "spec").get("policyName", ""), []).append(binding)
            self._compiled = [
                read_policy(entry.decode(), bindings[entry.key])
                for entry in self._policies.between("")
                if entry.key in bindings
            ]
        return self._compiled

    def _denials(self, policy: Policy, attributes: Attributes) -> list[_Denial]:
        try:
            kind = self._scope.matcher.matched(policy.criteria, attributes)
            if kind is None:
                return []
            param_kind = self._params.kind(policy.param_kind) if policy.param_kind else None
        except (Misconfigured, ApiError) as error:
            return _misconfigured(policy, None, "policy", error)
        denials: list[_Denial] = []
        for binding in policy.bindings:
            try:
                if not self._holds(binding, attributes):
                    continue
                params = self._params.of(param_kind, binding.params, attributes.namespace)
            except (Misconfigured, ApiError) as error:
                denials += _misconfigured(policy, binding, "binding", error)
                continue
            for param in params:
                denials += self._run(policy, binding, attributes, kind, param)
        return denials

    def _holds(self, binding: Binding, attributes: Attributes) -> bool:
        criteria = binding.criteria
        return criteria is None or self._scope.matcher.matched(criteria, attributes) is not None

    def _run(
        self,
        policy: Policy,
        binding: Binding,
        attributes: Attributes,
        kind: Kind,
        param: JsonObject | None,
    ) -> list[_Denial]:
        namespace = self._scope.seen_namespace(attributes)
        if namespace is None and attributes.target.namespace:
            raise not_found("", "namespaces", attributes.target.namespace)
        seen = {"params": param} if policy.param_kind else {}
        language = policy.language
        matching = self._scope.values(language, attributes, kind, seen)
        judging = self._scope.values(
            language, attributes, kind, {**seen, "namespaceObject": namespace}
        )
        denials: list[_Denial] = []
        for finding in findings(policy, matching, judging):
            if finding.always or "Deny" in binding.actions:
                denials.append(_Denial(policy, binding, finding))
            elif "Warn" in binding.actions:
                attributes.warnings.append(
                    f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with "
                    f"binding '{binding.name}': {finding.message}"
                )
        return denials

    def _changed(self, event: Event) -> None:
        del event
        self._compiled = None
        self._by_resource.clear()


def _misconfigured(
    policy: Policy, binding: Binding | None, what: str, error: Misconfigured | ApiError
) -> list[_Denial]:
    if policy.ignores_failures:
        return []
    return [_Denial(policy, binding, Finding(f"failed to configure {what}: {error}"))]


def _refusal(attributes: Attributes, denial: _Denial) -> ApiError:
    with_binding = f" with binding '{denial.binding.name}'" if denial.binding else ""
    message = (
        f"ValidatingAdmissionPolicy '{denial.policy.name}'{with_binding} denied request: "
        f"{denial.finding.message}"
    )
    kind = attributes.target.kind
    error = forbidden(kind.group, kind.plural, attributes.name or "Unknown", message)
    error.reason = denial.finding.reason or "Invalid"
    error.code = _CODES.get(error.reason, 422)
    error.details = {**(error.details or {}), "causes": [{"message": message}]}
    return error
