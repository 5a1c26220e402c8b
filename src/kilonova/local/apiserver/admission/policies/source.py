"""All policies of one kind with their bindings, and their invocations for a write."""

from collections.abc import Iterator
from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import ApiError, not_found
from kilonova.local.apimachinery.unstructured import nested_object
from kilonova.local.apiserver.admission.chain import Attributes
from kilonova.local.apiserver.admission.context import AdmissionContext
from kilonova.local.apiserver.admission.expressions import ExpressionBindings
from kilonova.local.apiserver.admission.policies.definition import (
    CompiledPolicy,
    PolicyBinding,
    compile_policy,
)
from kilonova.local.apiserver.admission.policies.params import ParamFinder, PolicyConfigurationError
from kilonova.local.apiserver.kinds.kind import Kind
from kilonova.local.apiserver.storage import StorageEvent

_EXEMPT_GROUPS = ("admissionregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io")


@dataclass(frozen=True, slots=True)
class Invocation:
    """A policy to be evaluated on a write, in the version of `kind`, with one parameter."""

    policy: CompiledPolicy
    binding: PolicyBinding
    kind: Kind
    param: JsonObject | None

    @property
    def id(self) -> str:
        """A unique id of the invocation."""
        metadata = nested_object(self.param or {}, "metadata")
        param_key = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        return f"policy/{self.policy.name}/{self.binding.name}/{param_key}"


@dataclass(frozen=True, slots=True)
class InvalidInvocation:
    """An invalid policy, or an invalid binding of it."""

    policy: CompiledPolicy
    binding: PolicyBinding | None
    message: str


class PolicySource:
    """Policies are compiled when the first write after a change needs them."""

    def __init__(self, context: AdmissionContext, policies: str, bindings: str) -> None:
        self._context = context
        self._params = ParamFinder(context.store, context.served_kinds)
        self._policy_collection = context.store.collection(policies)
        self._binding_collection = context.store.collection(bindings)
        self._compiled: list[CompiledPolicy] | None = None
        self._by_resource: dict[tuple[str, str], list[CompiledPolicy]] = {}
        for resource in (policies, bindings):
            context.store.observe(resource, self._on_event)

    def matching_policies(self, attributes: Attributes) -> list[CompiledPolicy]:
        """The policies that can match a write of this kind."""
        if not self._binding_collection.entries or self._context.is_server_request(attributes):
            return []
        kind = attributes.target.kind
        if kind.group in _EXEMPT_GROUPS:
            return []
        key = (kind.group, kind.plural)
        found = self._by_resource.get(key)
        if found is None:
            found = self._by_resource[key] = [
                policy
                for policy in self._policies_compiled()
                if self._context.matcher.may_match(policy.criteria, kind)
            ]
        return found

    def invocations(
        self, policy: CompiledPolicy, attributes: Attributes
    ) -> Iterator[Invocation | InvalidInvocation]:
        """The invocations of the policy for a write; none if it does not match."""
        try:
            kind = self._context.matcher.match(policy.criteria, attributes)
            if kind is None:
                return
            param_kind = self._params.find_kind(policy.param_kind) if policy.param_kind else None
        except (PolicyConfigurationError, ApiError) as error:
            yield InvalidInvocation(policy, None, f"failed to configure policy: {error}")
            return
        for binding in policy.bindings:
            try:
                if not self._matches_binding(binding, attributes):
                    continue
                params = self._params.find(param_kind, binding.params, attributes.namespace)
            except (PolicyConfigurationError, ApiError) as error:
                yield InvalidInvocation(policy, binding, f"failed to configure binding: {error}")
                continue
            for param in params:
                yield Invocation(policy, binding, kind, param)

    def bindings(
        self, invocation: Invocation, attributes: Attributes
    ) -> tuple[ExpressionBindings, ExpressionBindings]:
        """The variables of match conditions, and those of the other expressions, which include the
        namespace."""
        namespace = self._context.namespace_object(attributes)
        if namespace is None and attributes.target.namespace:
            raise not_found("", "namespaces", attributes.target.namespace)
        policy, kind = invocation.policy, invocation.kind
        seen = {"params": invocation.param} if policy.param_kind else {}
        more = {**seen, "namespaceObject": namespace}
        return (
            self._context.bindings(policy.compiler, attributes, kind, seen),
            self._context.bindings(policy.compiler, attributes, kind, more),
        )

    def _matches_binding(self, binding: PolicyBinding, attributes: Attributes) -> bool:
        criteria = binding.criteria
        return criteria is None or self._context.matcher.match(criteria, attributes) is not None

    def _policies_compiled(self) -> list[CompiledPolicy]:
        if self._compiled is None:
            bindings: dict[str, list[JsonObject]] = {}
            for entry in self._binding_collection.range_entries(""):
                binding = entry.decode()
                bindings.setdefault(
                    nested_object(binding, "spec").get("policyName", ""), []
                ).append(binding)
            self._compiled = [
                compile_policy(entry.decode(), bindings[entry.key])
                for entry in self._policy_collection.range_entries("")
                if entry.key in bindings
            ]
        return self._compiled

    def _on_event(self, event: StorageEvent) -> None:
        del event
        self._compiled = None
        self._by_resource.clear()
