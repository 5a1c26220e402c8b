"""MutatingAdmissionPolicies and their bindings."""

from kilonova.api.json import JsonObject
from kilonova.cel.environment import CompileError
from kilonova.local.apimachinery.errors import (
    FieldError,
    invalid_value,
    not_supported_value,
    required_value,
)
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects, nested_strings
from kilonova.local.apiserver.admission.expressions import ExpressionCompiler
from kilonova.local.apiserver.admission.policies.definition import OBJECT_TYPES, PATCH_TYPES
from kilonova.local.apiserver.admission.policies.literals import rewrite_typed_literals
from kilonova.local.apiserver.kinds.admissionregistration.match_validation import (
    GROUP,
    REINVOCATION_POLICIES,
    validate_enum_field,
)
from kilonova.local.apiserver.kinds.admissionregistration.validating_policies import (
    PARAM_KIND,
    AdmissionPolicyStrategy,
    PolicyBindingStrategy,
    validate_policy_spec,
)
from kilonova.local.apiserver.kinds.columns import AGE, NAME, count_column
from kilonova.local.apiserver.kinds.strategy import register_strategy

_OPERATIONS = ["*", "CONNECT", "CREATE", "UPDATE"]
_PATCH_TYPES = ["ApplyConfiguration", "JSONPatch"]


@register_strategy(GROUP, "MutatingAdmissionPolicy")
class MutatingAdmissionPolicyStrategy(AdmissionPolicyStrategy):
    """CEL mutations of admitted objects."""

    columns = (NAME, count_column("Mutations", "spec", "mutations"), PARAM_KIND, AGE)

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        spec = nested_object(obj, "spec")
        compiler = ExpressionCompiler(
            params=spec.get("paramKind") is not None,
            variables=[each.get("name", "") for each in nested_objects(spec, "variables")],
        )
        problems = validate_policy_spec(spec, compiler)
        problems += _validate_operations(
            nested_object(spec, "matchConstraints"), "spec.matchConstraints"
        )
        mutations = nested_objects(spec, "mutations")
        if not mutations:
            detail = "mutations must contain at least one item"
            problems.append(required_value("spec.mutations", detail))
        for index, mutation in enumerate(mutations):
            problems += _validate_mutation(mutation, f"spec.mutations[{index}]", compiler)
        if not spec.get("reinvocationPolicy"):
            problems.append(required_value("spec.reinvocationPolicy"))
            return problems
        return problems + validate_enum_field(
            spec, "reinvocationPolicy", "spec", REINVOCATION_POLICIES
        )


@register_strategy(GROUP, "MutatingAdmissionPolicyBinding")
class MutatingAdmissionPolicyBindingStrategy(PolicyBindingStrategy):
    """Binds a mutating policy to the requests that it applies to."""

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        resources = nested_object(obj, "spec", "matchResources")
        return super().validate_fields(obj) + _validate_operations(resources, "spec.matchResources")


def _validate_operations(resources: JsonObject, path: str) -> list[FieldError]:
    """DELETE cannot be mutated."""
    return [
        not_supported_value(f"{path}.resourceRules.operations", operation, _OPERATIONS)
        for rule in nested_objects(resources, "resourceRules")
        for operation in nested_strings(rule, "operations")
        if operation not in _OPERATIONS
    ]


def _validate_mutation(
    mutation: JsonObject, path: str, compiler: ExpressionCompiler
) -> list[FieldError]:
    kind = mutation.get("patchType", "")
    if not kind:
        return [required_value(f"{path}.patchType")]
    if kind not in _PATCH_TYPES:
        return [not_supported_value(f"{path}.patchType", kind, _PATCH_TYPES)]
    name = kind[0].lower() + kind[1:] if kind != "JSONPatch" else "jsonPatch"
    other = "applyConfiguration" if kind == "JSONPatch" else "jsonPatch"
    problems: list[FieldError] = []
    if mutation.get(name) is None:
        problems.append(
            required_value(f"{path}.{name}", f"must be specified when patchType is {kind}")
        )
    else:
        source = nested_object(mutation, name).get("expression", "").strip()
        field_path = f"{path}.{name}.expression"
        problems += _validate_expression(compiler, source, field_path, is_patch=kind == "JSONPatch")
    if mutation.get(other) is not None:
        detail = f"must not be specified when patchType is {kind}"
        problems.append(invalid_value(f"{path}.{other}", f"{{{other}}}", detail))
    return problems


def _validate_expression(
    compiler: ExpressionCompiler, source: str, path: str, *, is_patch: bool
) -> list[FieldError]:
    if not source:
        return [required_value(path)]
    try:
        compiler.compile(
            rewrite_typed_literals(source), *(PATCH_TYPES if is_patch else OBJECT_TYPES)
        )
    except CompileError as error:
        message = str(error)
        if message.startswith("must evaluate to"):
            _, _, found = message.rpartition(" but got ")
            expected = "list(JSONPatch)" if is_patch else "Object"
            message = f"must evaluate to {expected} but got {found}"
        return [invalid_value(path, source, message)]
    return []
