"""Stored policies and bindings, compiled."""

from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.cel.environment import CompileError, Program
from kilonova.local.apimachinery.unstructured import (
    nested_object,
    nested_objects,
    nested_strings,
    nested_value,
)
from kilonova.local.apiserver.admission.expressions import ExpressionCompiler
from kilonova.local.apiserver.admission.match_conditions import (
    MatchConditions,
    compile_match_conditions,
)
from kilonova.local.apiserver.admission.matching import MatchCriteria
from kilonova.local.apiserver.admission.policies.literals import rewrite_typed_literals

OBJECT_TYPES = ("map(string, dyn)",)
PATCH_TYPES = ("list(map(string, dyn))", "list(dyn)")
"""The result types of mutations; the empty list is a list of any type."""


@dataclass(frozen=True, slots=True)
class CompiledExpression:
    """An expression; `program` is None if it does not compile."""

    source: str
    program: Program | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Validation:
    """An expression that must be true, and the message if it is not."""

    expression: CompiledExpression
    message: str
    message_expression: CompiledExpression | None
    reason: str


@dataclass(frozen=True, slots=True)
class Mutation:
    """A JSON patch, or an apply configuration that is merged into the object."""

    expression: CompiledExpression
    is_patch: bool


@dataclass(frozen=True, slots=True)
class ParamKind:
    """The kind of a policy's parameters."""

    api_version: str
    kind: str


@dataclass(frozen=True, slots=True)
class ParamRef:
    """The parameters of a binding: one object by name, or all that a selector matches."""

    name: str
    namespace: str
    selector: JsonObject | None
    deny_if_not_found: bool


@dataclass(frozen=True, slots=True)
class PolicyBinding:
    """A binding of a policy. `criteria` is None if it applies wherever the policy does."""

    name: str
    criteria: MatchCriteria | None
    params: ParamRef | None
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CompiledPolicy:
    """A policy and its bindings."""

    name: str
    criteria: MatchCriteria
    param_kind: ParamKind | None
    compiler: ExpressionCompiler
    conditions: MatchConditions
    validations: tuple[Validation, ...]
    audit_annotations: tuple[CompiledExpression, ...]
    mutations: tuple[Mutation, ...]
    reinvocable: bool
    ignore_failures: bool
    bindings: tuple[PolicyBinding, ...]


def compile_policy(policy: JsonObject, bindings: list[JsonObject]) -> CompiledPolicy:
    """Compile a stored policy. Errors in an expression are reported when it is evaluated."""
    spec = nested_object(policy, "spec")
    kind = spec.get("paramKind")
    ignores = spec.get("failurePolicy") == "Ignore"
    compiler = policy_compiler(spec)
    return CompiledPolicy(
        name=policy["metadata"]["name"],
        criteria=MatchCriteria.from_json(
            nested_object(spec, "matchConstraints"), "resourceRules", any_resource=True
        ),
        param_kind=ParamKind(kind["apiVersion"], kind["kind"]) if kind else None,
        compiler=compiler,
        conditions=compile_match_conditions(
            nested_objects(spec, "matchConditions"), compiler, ignores
        ),
        validations=tuple(
            _compile_validation(each, compiler) for each in nested_objects(spec, "validations")
        ),
        audit_annotations=tuple(
            _compile_expression(each.get("valueExpression", ""), compiler, "string", "null_type")
            for each in nested_objects(spec, "auditAnnotations")
        ),
        mutations=tuple(
            _compile_mutation(each, compiler) for each in nested_objects(spec, "mutations")
        ),
        reinvocable=spec.get("reinvocationPolicy") == "IfNeeded",
        ignore_failures=ignores,
        bindings=tuple(map(_parse_binding, bindings)),
    )


def policy_compiler(spec: JsonObject, *, with_authorizer: bool = True) -> ExpressionCompiler:
    """The compiler for the expressions of a policy, with its variables."""
    variables = nested_objects(spec, "variables")
    compiler = ExpressionCompiler(
        params=spec.get("paramKind") is not None,
        authorizer=with_authorizer,
        variables=[each["name"] for each in variables],
    )
    for each in variables:
        compiler.define_variable(each["name"], each.get("expression", ""))
    return compiler


def _compile_validation(validation: JsonObject, compiler: ExpressionCompiler) -> Validation:
    message = validation.get("messageExpression")
    return Validation(
        _compile_expression(validation.get("expression", ""), compiler, "bool"),
        validation.get("message", "").strip(),
        _compile_expression(message, compiler, "string") if message else None,
        validation.get("reason") or "Invalid",
    )


def _compile_mutation(mutation: JsonObject, compiler: ExpressionCompiler) -> Mutation:
    is_patch = mutation.get("patchType") == "JSONPatch"
    source = nested_object(mutation, "jsonPatch" if is_patch else "applyConfiguration").get(
        "expression", ""
    )
    try:
        program = compiler.compile(
            rewrite_typed_literals(source), *(PATCH_TYPES if is_patch else OBJECT_TYPES)
        )
    except CompileError as error:
        return Mutation(CompiledExpression(source, None, str(error)), is_patch)
    return Mutation(CompiledExpression(source, program), is_patch)


def _compile_expression(
    source: str, compiler: ExpressionCompiler, *result_types: str
) -> CompiledExpression:
    try:
        return CompiledExpression(source, compiler.compile(source, *result_types))
    except CompileError as error:
        return CompiledExpression(source, None, str(error))


def _parse_binding(binding: JsonObject) -> PolicyBinding:
    spec = nested_object(binding, "spec")
    resources = nested_value(spec, "matchResources")
    reference = nested_value(spec, "paramRef")
    return PolicyBinding(
        binding["metadata"]["name"],
        None
        if resources is None
        else MatchCriteria.from_json(resources, "resourceRules", any_resource=True),
        None if reference is None else _parse_param_ref(reference),
        tuple(nested_strings(spec, "validationActions")),
    )


def _parse_param_ref(reference: JsonObject) -> ParamRef:
    return ParamRef(
        reference.get("name", ""),
        reference.get("namespace", ""),
        reference.get("selector"),
        reference.get("parameterNotFoundAction") == "Deny",
    )
