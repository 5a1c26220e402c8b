"""MutatingAdmissionPolicies: run one after the other, each on what the last one made."""

from kilonova.local.admission.chain import Attributes
from kilonova.local.admission.conditions import ConditionsFailed
from kilonova.local.admission.policies.mutation import MutationFailed, mutated
from kilonova.local.admission.policies.source import Invocation, PolicySource, Unusable
from kilonova.local.admission.scope import Scope
from kilonova.local.admission.versions import type_name
from kilonova.local.errors import ApiError, forbidden
from kilonova.local.patch import copied, same
from kilonova.local.schema.builtin import builtin_schema
from kilonova.local.schema.node import Schema

POLICIES = "mutatingadmissionpolicies.admissionregistration.k8s.io"
BINDINGS = "mutatingadmissionpolicybindings.admissionregistration.k8s.io"


class MutatingPolicies:
    """Runs policies that may change the object."""

    def __init__(self, scope: Scope) -> None:
        self._source = PolicySource(scope, POLICIES, BINDINGS)
        self._versions = scope.versions

    async def mutate(self, attributes: Attributes) -> None:
        policies = self._source.concerned(attributes)
        if not policies or attributes.obj is None:
            return
        rounds = attributes.rounds
        if rounds.second and not same(rounds.seen, attributes.obj):
            rounds.object_changed()
        refusals: list[tuple[Invocation | Unusable, str]] = []
        invocations = [
            each for policy in policies for each in self._source.invocations(policy, attributes)
        ]
        for each in invocations:
            if isinstance(each, Unusable):
                refusals.append((each, each.message))
            else:
                refusals += [(each, why) for why in self._run(each, attributes)]
        refusals = [each for each in refusals if not each[0].policy.ignores_failures]
        if refusals:
            raise _refusal(attributes, refusals)
        if rounds.wanted:
            rounds.seen = copied(attributes.obj)

    def _run(self, invocation: Invocation, attributes: Attributes) -> list[str]:
        """Change the object as the policy wants; gives what went wrong."""
        rounds, policy = attributes.rounds, invocation.policy
        matching, _ = self._source.values(invocation, attributes)
        try:
            if not policy.conditions.hold(matching):
                return []
        except ConditionsFailed as failure:
            return [str(failure)]
        if rounds.second and invocation.id not in rounds.again:
            return []
        part, kind = attributes.target.subresource, invocation.kind
        problems: list[str] = []
        before = attributes.obj
        for mutation in policy.mutations:
            shown = self._versions.shown(attributes.obj, kind, part)
            assert shown is not None
            _, values = self._source.values(invocation, attributes)
            try:
                made = mutated(mutation, shown, self._schema(invocation, part), values)
                attributes.obj = self._versions.stored(made, kind, part)
            except MutationFailed as failure:
                problems.append(str(failure))
            except ApiError as error:
                problems.append(error.message)
        if not same(before, attributes.obj):
            rounds.object_changed()
        if policy.asked_again:
            rounds.asked.add(invocation.id)
        return problems

    def _schema(self, invocation: Invocation, part: str) -> Schema:
        name, kind = type_name(invocation.kind, part), invocation.kind
        if name.kind == kind.kind:
            return kind.schema
        return builtin_schema(name.group, name.version, name.kind)


def _refusal(attributes: Attributes, refusals: list[tuple[Invocation | Unusable, str]]) -> ApiError:
    kind = attributes.target.kind
    error = forbidden(kind.group, kind.plural, attributes.name or "Unknown", "")
    messages = [_words(by, why) for by, why in refusals]
    error.message = messages[0]
    if isinstance(refusals[0][0], Invocation):
        error.reason = "Invalid"
    causes = [{"message": message} for message in messages]
    error.details = {**(error.details or {}), "causes": causes}
    return error


def _words(by: Invocation | Unusable, why: str) -> str:
    if by.binding is None:
        return f'policy "{by.policy.name}" denied request: {why}'
    return f"policy '{by.policy.name}' with binding '{by.binding.name}' denied request: {why}"
