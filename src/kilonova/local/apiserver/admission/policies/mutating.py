"""MutatingAdmissionPolicies: evaluated one after the other, each on the result of the previous
one."""

from kilonova.local.apimachinery.errors import ApiError, forbidden
from kilonova.local.apimachinery.patch import deep_copy, json_equal
from kilonova.local.apiserver.admission.chain import Attributes
from kilonova.local.apiserver.admission.context import AdmissionContext
from kilonova.local.apiserver.admission.match_conditions import MatchConditionsError
from kilonova.local.apiserver.admission.policies.mutation import MutationError, apply_mutation
from kilonova.local.apiserver.admission.policies.source import (
    InvalidInvocation,
    Invocation,
    PolicySource,
)
from kilonova.local.apiserver.admission.version_conversion import request_kind
from kilonova.local.apiserver.schema.builtin import builtin_schema
from kilonova.local.apiserver.schema.node import Schema

POLICIES = "mutatingadmissionpolicies.admissionregistration.k8s.io"
BINDINGS = "mutatingadmissionpolicybindings.admissionregistration.k8s.io"


class MutatingPolicyPlugin:
    """Evaluates policies that may change the object."""

    def __init__(self, context: AdmissionContext) -> None:
        self._source = PolicySource(context, POLICIES, BINDINGS)
        self._versions = context.versions

    async def mutate(self, attributes: Attributes) -> None:
        policies = self._source.matching_policies(attributes)
        if not policies or attributes.obj is None:
            return
        reinvocation = attributes.reinvocation
        if reinvocation.is_reinvocation and not json_equal(
            reinvocation.last_object, attributes.obj
        ):
            reinvocation.object_changed()
        denials: list[tuple[Invocation | InvalidInvocation, str]] = []
        invocations = [
            each for policy in policies for each in self._source.invocations(policy, attributes)
        ]
        for each in invocations:
            if isinstance(each, InvalidInvocation):
                denials.append((each, each.message))
            else:
                denials += [(each, reason) for reason in self._apply_mutations(each, attributes)]
        denials = [each for each in denials if not each[0].policy.ignore_failures]
        if denials:
            raise _denied_error(attributes, denials)
        if reinvocation.is_needed:
            reinvocation.last_object = deep_copy(attributes.obj)

    def _apply_mutations(self, invocation: Invocation, attributes: Attributes) -> list[str]:
        """Apply the mutations of the policy; returns the errors."""
        reinvocation, policy = attributes.reinvocation, invocation.policy
        matching, _ = self._source.bindings(invocation, attributes)
        try:
            if not policy.conditions.match(matching):
                return []
        except MatchConditionsError as failure:
            return [str(failure)]
        if reinvocation.is_reinvocation and invocation.id not in reinvocation.to_reinvoke:
            return []
        part, kind = attributes.target.subresource, invocation.kind
        problems: list[str] = []
        original = attributes.obj
        for mutation in policy.mutations:
            converted = self._versions.to_version(attributes.obj, kind, part)
            assert converted is not None
            _, values = self._source.bindings(invocation, attributes)
            try:
                made = apply_mutation(
                    mutation, converted, self._object_schema(invocation, part), values
                )
                attributes.obj = self._versions.to_storage(made, kind, part)
            except MutationError as failure:
                problems.append(str(failure))
            except ApiError as error:
                problems.append(error.message)
        if not json_equal(original, attributes.obj):
            reinvocation.object_changed()
        if policy.reinvocable:
            reinvocation.invoked.add(invocation.id)
        return problems

    def _object_schema(self, invocation: Invocation, subresource: str) -> Schema:
        name, kind = request_kind(invocation.kind, subresource), invocation.kind
        if name.kind == kind.kind:
            return kind.schema
        return builtin_schema(name.group, name.version, name.kind)


def _denied_error(
    attributes: Attributes, denials: list[tuple[Invocation | InvalidInvocation, str]]
) -> ApiError:
    kind = attributes.target.kind
    error = forbidden(kind.group, kind.plural, attributes.name or "Unknown", "")
    messages = [_denial_message(by, reason) for by, reason in denials]
    error.message = messages[0]
    if isinstance(denials[0][0], Invocation):
        error.reason = "Invalid"
    causes = [{"message": message} for message in messages]
    error.details = {**(error.details or {}), "causes": causes}
    return error


def _denial_message(by: Invocation | InvalidInvocation, reason: str) -> str:
    if by.binding is None:
        return f'policy "{by.policy.name}" denied request: {reason}'
    return f"policy '{by.policy.name}' with binding '{by.binding.name}' denied request: {reason}"
