"""Policies and bindings as they are stored, ready to be run."""

from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.local.admission.conditions import Conditions, compiled_conditions
from kilonova.local.admission.expressions import Language
from kilonova.local.admission.matching import Criteria
from kilonova.local.admission.policies.literals import plain_literals
from kilonova.local.kinds.walk import at, objects, part, strings
from kilonova.local.schema.cel.environment import CompileError, Program

OBJECT = ("map(string, dyn)",)
PATCH = ("list(map(string, dyn))", "list(dyn)")
"""What expressions of mutations must come to; the empty list is one of anything."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """An expression; `program` is None where it does not compile."""

    source: str
    program: Program | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Validation:
    """What must be true, and what is said where it is not."""

    rule: Compiled
    message: str
    message_rule: Compiled | None
    reason: str


@dataclass(frozen=True, slots=True)
class Mutation:
    """What changes the object: a JSON patch, or a part of the object to be merged into it."""

    rule: Compiled
    is_patch: bool


@dataclass(frozen=True, slots=True)
class ParamKind:
    """What parameters of a policy are."""

    api_version: str
    kind: str


@dataclass(frozen=True, slots=True)
class ParamRef:
    """Which objects a binding takes as parameters: one by name, or all that are selected."""

    name: str
    namespace: str
    selector: JsonObject | None
    denies_if_absent: bool


@dataclass(frozen=True, slots=True)
class Binding:
    """A policy put to work. `criteria` is None where it holds wherever the policy does."""

    name: str
    criteria: Criteria | None
    params: ParamRef | None
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy and its bindings."""

    name: str
    criteria: Criteria
    param_kind: ParamKind | None
    language: Language
    conditions: Conditions
    validations: tuple[Validation, ...]
    annotations: tuple[Compiled, ...]
    mutations: tuple[Mutation, ...]
    asked_again: bool
    ignores_failures: bool
    bindings: tuple[Binding, ...]


def read_policy(policy: JsonObject, bindings: list[JsonObject]) -> Policy:
    """Compile a stored policy. What is wrong with an expression is told when it is run."""
    spec = part(policy, "spec")
    kind = spec.get("paramKind")
    ignores = spec.get("failurePolicy") == "Ignore"
    language = policy_language(spec)
    return Policy(
        name=policy["metadata"]["name"],
        criteria=Criteria.read(part(spec, "matchConstraints"), "resourceRules", any_resource=True),
        param_kind=ParamKind(kind["apiVersion"], kind["kind"]) if kind else None,
        language=language,
        conditions=compiled_conditions(objects(spec, "matchConditions"), language, ignores),
        validations=tuple(_validation(each, language) for each in objects(spec, "validations")),
        annotations=tuple(
            _compiled(each.get("valueExpression", ""), language, "string", "null_type")
            for each in objects(spec, "auditAnnotations")
        ),
        mutations=tuple(_mutation(each, language) for each in objects(spec, "mutations")),
        asked_again=spec.get("reinvocationPolicy") == "IfNeeded",
        ignores_failures=ignores,
        bindings=tuple(map(_binding, bindings)),
    )


def policy_language(spec: JsonObject, *, authorizer: bool = True) -> Language:
    """What the expressions of a policy can speak of, its variables among it."""
    variables = objects(spec, "variables")
    language = Language(
        params=spec.get("paramKind") is not None,
        authorizer=authorizer,
        variables=[each["name"] for each in variables],
    )
    for each in variables:
        language.define(each["name"], each.get("expression", ""))
    return language


def _validation(validation: JsonObject, language: Language) -> Validation:
    message = validation.get("messageExpression")
    return Validation(
        _compiled(validation.get("expression", ""), language, "bool"),
        validation.get("message", "").strip(),
        _compiled(message, language, "string") if message else None,
        validation.get("reason") or "Invalid",
    )


def _mutation(mutation: JsonObject, language: Language) -> Mutation:
    is_patch = mutation.get("patchType") == "JSONPatch"
    source = part(mutation, "jsonPatch" if is_patch else "applyConfiguration").get("expression", "")
    try:
        program = language.compile(plain_literals(source), *(PATCH if is_patch else OBJECT))
    except CompileError as error:
        return Mutation(Compiled(source, None, str(error)), is_patch)
    return Mutation(Compiled(source, program), is_patch)


def _compiled(source: str, language: Language, *wanted: str) -> Compiled:
    try:
        return Compiled(source, language.compile(source, *wanted))
    except CompileError as error:
        return Compiled(source, None, str(error))


def _binding(binding: JsonObject) -> Binding:
    spec = part(binding, "spec")
    resources = at(spec, "matchResources")
    reference = at(spec, "paramRef")
    return Binding(
        binding["metadata"]["name"],
        None if resources is None else Criteria.read(resources, "resourceRules", any_resource=True),
        None if reference is None else _param_ref(reference),
        tuple(strings(spec, "validationActions")),
    )


def _param_ref(reference: JsonObject) -> ParamRef:
    return ParamRef(
        reference.get("name", ""),
        reference.get("namespace", ""),
        reference.get("selector"),
        reference.get("parameterNotFoundAction") == "Deny",
    )
