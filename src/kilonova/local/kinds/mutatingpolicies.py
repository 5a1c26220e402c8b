"""Policies that may change objects."""

from kilonova.api.json import JsonObject
from kilonova.local.admission.expressions import Language
from kilonova.local.admission.policies.definition import OBJECT, PATCH
from kilonova.local.admission.policies.literals import plain_literals
from kilonova.local.errors import Problem, invalid_value, not_supported, required
from kilonova.local.kinds.admissionpolicies import (
    PARAM_KIND,
    Bindings,
    Policies,
    common_problems,
)
from kilonova.local.kinds.admissionrules import GROUP, REINVOCATION_POLICIES, one_word
from kilonova.local.kinds.columns import AGE, NAME, count
from kilonova.local.kinds.strategy import strategy
from kilonova.local.kinds.walk import objects, part, strings
from kilonova.local.schema.cel.environment import CompileError

_OPERATIONS = ["*", "CONNECT", "CREATE", "UPDATE"]
_PATCH_TYPES = ["ApplyConfiguration", "JSONPatch"]


@strategy(GROUP, "MutatingAdmissionPolicy")
class MutatingAdmissionPolicies(Policies):
    """Rules in CEL that may change the object."""

    columns = (NAME, count("Mutations", "spec", "mutations"), PARAM_KIND, AGE)

    def problems(self, obj: JsonObject) -> list[Problem]:
        spec = part(obj, "spec")
        language = Language(
            params=spec.get("paramKind") is not None,
            variables=[each.get("name", "") for each in objects(spec, "variables")],
        )
        problems = common_problems(spec, language)
        problems += _operation_problems(part(spec, "matchConstraints"), "spec.matchConstraints")
        mutations = objects(spec, "mutations")
        if not mutations:
            detail = "mutations must contain at least one item"
            problems.append(required("spec.mutations", detail))
        for index, mutation in enumerate(mutations):
            problems += _mutation_problems(mutation, f"spec.mutations[{index}]", language)
        if not spec.get("reinvocationPolicy"):
            problems.append(required("spec.reinvocationPolicy"))
            return problems
        return problems + one_word(spec, "reinvocationPolicy", "spec", REINVOCATION_POLICIES)


@strategy(GROUP, "MutatingAdmissionPolicyBinding")
class MutatingAdmissionPolicyBindings(Bindings):
    """Where a policy may change objects."""

    def problems(self, obj: JsonObject) -> list[Problem]:
        resources = part(obj, "spec", "matchResources")
        return super().problems(obj) + _operation_problems(resources, "spec.matchResources")


def _operation_problems(resources: JsonObject, path: str) -> list[Problem]:
    """What goes cannot be changed."""
    return [
        not_supported(f"{path}.resourceRules.operations", operation, _OPERATIONS)
        for rule in objects(resources, "resourceRules")
        for operation in strings(rule, "operations")
        if operation not in _OPERATIONS
    ]


def _mutation_problems(mutation: JsonObject, path: str, language: Language) -> list[Problem]:
    kind = mutation.get("patchType", "")
    if not kind:
        return [required(f"{path}.patchType")]
    if kind not in _PATCH_TYPES:
        return [not_supported(f"{path}.patchType", kind, _PATCH_TYPES)]
    name = kind[0].lower() + kind[1:] if kind != "JSONPatch" else "jsonPatch"
    other = "applyConfiguration" if kind == "JSONPatch" else "jsonPatch"
    problems: list[Problem] = []
    if mutation.get(name) is None:
        problems.append(required(f"{path}.{name}", f"must be specified when patchType is {kind}"))
    else:
        source = part(mutation, name).get("expression", "").strip()
        here = f"{path}.{name}.expression"
        problems += _expression_problems(language, source, here, is_patch=kind == "JSONPatch")
    if mutation.get(other) is not None:
        detail = f"must not be specified when patchType is {kind}"
        problems.append(invalid_value(f"{path}.{other}", f"{{{other}}}", detail))
    return problems


def _expression_problems(
    language: Language, source: str, path: str, *, is_patch: bool
) -> list[Problem]:
    if not source:
        return [required(path)]
    try:
        language.compile(plain_literals(source), *(PATCH if is_patch else OBJECT))
    except CompileError as error:
        words = str(error)
        if words.startswith("must evaluate to"):
            _, _, found = words.rpartition(" but got ")
            wanted = "list(JSONPatch)" if is_patch else "Object"
            words = f"must evaluate to {wanted} but got {found}"
        return [invalid_value(path, source, words)]
    return []
