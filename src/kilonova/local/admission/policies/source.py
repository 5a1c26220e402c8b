"""All policies of one kind with their bindings, and what they are to be run with."""

from collections.abc import Iterator
from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.local.admission.chain import Attributes
from kilonova.local.admission.expressions import Values
from kilonova.local.admission.policies.definition import Binding, Policy, read_policy
from kilonova.local.admission.policies.params import Misconfigured, Params
from kilonova.local.admission.scope import Scope
from kilonova.local.errors import ApiError, not_found
from kilonova.local.kinds.base import Kind
from kilonova.local.kinds.walk import part
from kilonova.local.storage import Event

_EXEMPT = ("admissionregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io")


@dataclass(frozen=True, slots=True)
class Invocation:
    """A policy to be run on a write, in the version of `kind`, with one parameter."""

    policy: Policy
    binding: Binding
    kind: Kind
    param: JsonObject | None

    @property
    def id(self) -> str:
        """Tells it from all others."""
        metadata = part(self.param or {}, "metadata")
        place = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        return f"policy/{self.policy.name}/{self.binding.name}/{place}"


@dataclass(frozen=True, slots=True)
class Unusable:
    """A policy, or a binding of it, that cannot be followed."""

    policy: Policy
    binding: Binding | None
    message: str


class PolicySource:
    """Policies are compiled when the first write after a change needs them."""

    def __init__(self, scope: Scope, policies: str, bindings: str) -> None:
        self._scope = scope
        self._params = Params(scope.store, scope.catalog)
        self._policies = scope.store.collection(policies)
        self._bindings = scope.store.collection(bindings)
        self._compiled: list[Policy] | None = None
        self._by_resource: dict[tuple[str, str], list[Policy]] = {}
        for resource in (policies, bindings):
            scope.store.observe(resource, self._changed)

    def concerned(self, attributes: Attributes) -> list[Policy]:
        """The policies that any write of this kind might matter to."""
        if not self._bindings.entries or self._scope.is_own(attributes):
            return []
        kind = attributes.target.kind
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

    def invocations(
        self, policy: Policy, attributes: Attributes
    ) -> Iterator[Invocation | Unusable]:
        """What the policy is to be run with; nothing where the write does not match."""
        try:
            kind = self._scope.matcher.matched(policy.criteria, attributes)
            if kind is None:
                return
            param_kind = self._params.kind(policy.param_kind) if policy.param_kind else None
        except (Misconfigured, ApiError) as error:
            yield Unusable(policy, None, f"failed to configure policy: {error}")
            return
        for binding in policy.bindings:
            try:
                if not self._holds(binding, attributes):
                    continue
                params = self._params.of(param_kind, binding.params, attributes.namespace)
            except (Misconfigured, ApiError) as error:
                yield Unusable(policy, binding, f"failed to configure binding: {error}")
                continue
            for param in params:
                yield Invocation(policy, binding, kind, param)

    def values(self, invocation: Invocation, attributes: Attributes) -> tuple[Values, Values]:
        """What conditions see, and what the rest of the policy sees: also the namespace."""
        namespace = self._scope.seen_namespace(attributes)
        if namespace is None and attributes.target.namespace:
            raise not_found("", "namespaces", attributes.target.namespace)
        policy, kind = invocation.policy, invocation.kind
        seen = {"params": invocation.param} if policy.param_kind else {}
        more = {**seen, "namespaceObject": namespace}
        return (
            self._scope.values(policy.language, attributes, kind, seen),
            self._scope.values(policy.language, attributes, kind, more),
        )

    def _holds(self, binding: Binding, attributes: Attributes) -> bool:
        criteria = binding.criteria
        return criteria is None or self._scope.matcher.matched(criteria, attributes) is not None

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

    def _changed(self, event: Event) -> None:
        del event
        self._compiled = None
        self._by_resource.clear()
