"""ValidatingAdmissionPolicies and their bindings, and what they share with mutating policies."""

import re

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    FieldError,
    duplicate_value,
    forbidden_value,
    invalid_value,
    not_supported_value,
    required_value,
)
from kilonova.local.apimachinery.names import (
    dns_1035_label_error,
    dns_subdomain_error,
    path_segment_error,
    qualified_name_error,
)
from kilonova.local.apimachinery.unstructured import (
    ensure_object,
    nested_object,
    nested_objects,
    nested_strings,
    nested_value,
)
from kilonova.local.apiserver.admission.expressions import ExpressionCompiler
from kilonova.local.apiserver.kinds.admissionregistration.match_validation import (
    FAILURE_POLICIES,
    GROUP,
    set_match_defaults,
    set_rule_defaults,
    validate_enum_field,
    validate_expression,
    validate_match_conditions,
    validate_match_resources,
)
from kilonova.local.apiserver.kinds.columns import (
    AGE,
    NAME,
    UNSET,
    count_column,
    format_label_selector,
    text_column,
)
from kilonova.local.apiserver.kinds.kind import PrinterColumn
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy
from kilonova.local.apiserver.kinds.validation import validate_label_selector
from kilonova.local.apiserver.schema.cel.schema_types import escape

_ACTIONS = ["Audit", "Deny", "Warn"]
_REASONS = ["Forbidden", "Invalid", "RequestEntityTooLarge"]
_MAX_AUDIT_ANNOTATIONS = 20
_MAX_VALUE_LENGTH = 5 * 1024
_is_identifier = re.compile("[_a-zA-Z][_a-zA-Z0-9]*").fullmatch


def _param_kind(obj: JsonObject) -> str:
    kind = nested_value(obj, "spec", "paramKind")
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else UNSET


PARAM_KIND = PrinterColumn("ParamKind", "string", lambda obj, _: _param_kind(obj))


def _param_ref(obj: JsonObject) -> str:
    reference = nested_value(obj, "spec", "paramRef")
    if not reference:
        return UNSET
    if reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{reference['name']}"
    return format_label_selector(reference.get("selector")) or UNSET


class AdmissionPolicyStrategy(BuiltinStrategy):
    """What validating and mutating policies share."""

    has_generation = True
    allows_unconditional_update = False

    def set_defaults(self, obj: JsonObject) -> None:
        spec = ensure_object(obj, "spec")
        spec.setdefault("failurePolicy", "Fail")
        _default_match_resources(spec.get("matchConstraints"))


@register_strategy(GROUP, "ValidatingAdmissionPolicy")
class ValidatingAdmissionPolicyStrategy(AdmissionPolicyStrategy):
    """CEL rules that reject requests."""

    columns = (
        NAME,
        count_column("Validations", "spec", "validations"),
        PARAM_KIND,
        AGE,
    )

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        spec = nested_object(obj, "spec")
        has_params = spec.get("paramKind") is not None
        compiler = ExpressionCompiler(
            params=has_params,
            variables=[each.get("name", "") for each in nested_objects(spec, "variables")],
        )
        problems = validate_policy_spec(spec, compiler)
        validations = nested_objects(spec, "validations")
        annotations = nested_objects(spec, "auditAnnotations")
        if not validations and not annotations:
            detail = "validations or auditAnnotations must contain at least one item"
            names = ("validations", "auditAnnotations")
            return problems + [required_value(f"spec.{name}", detail) for name in names]
        message_compiler = _message_compiler(spec, has_params)
        for index, validation in enumerate(validations):
            path = f"spec.validations[{index}]"
            problems += _validate_validation(validation, path, compiler, message_compiler)
        name = nested_object(obj, "metadata").get("name", "")
        return problems + _validate_audit_annotations(annotations, name, compiler)


class PolicyBindingStrategy(BuiltinStrategy):
    """Binds a policy to requests and parameters; base of both kinds of bindings."""

    has_generation = True
    allows_unconditional_update = False
    columns = (
        NAME,
        text_column("PolicyName", "spec", "policyName"),
        PrinterColumn("ParamRef", "string", lambda obj, _: _param_ref(obj)),
        AGE,
    )

    def set_defaults(self, obj: JsonObject) -> None:
        _default_match_resources(ensure_object(obj, "spec").get("matchResources"))

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        spec = nested_object(obj, "spec")
        problems: list[FieldError] = []
        name = spec.get("policyName", "")
        if not name:
            problems.append(required_value("spec.policyName"))
        elif error := dns_subdomain_error(name):
            problems.append(invalid_value("spec.policyName", name, error))
        problems += _validate_param_ref(spec.get("paramRef"), "spec.paramRef")
        return problems + validate_match_resources(
            spec.get("matchResources"), "spec.matchResources"
        )


@register_strategy(GROUP, "ValidatingAdmissionPolicyBinding")
class ValidatingAdmissionPolicyBindingStrategy(PolicyBindingStrategy):
    """Binds a validating policy, with its validation actions."""

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        actions = nested_strings(obj, "spec", "validationActions")
        return super().validate_fields(obj) + _validate_actions(actions, "spec.validationActions")


def _default_match_resources(value: JsonObject | None) -> None:
    if value is not None:
        set_match_defaults(value)
        set_rule_defaults(
            nested_objects(value, "resourceRules") + nested_objects(value, "excludeResourceRules")
        )


def validate_policy_spec(spec: JsonObject, compiler: ExpressionCompiler) -> list[FieldError]:
    """Failure policy, parameters, match fields and variables, which are declared to `compiler`."""
    problems = validate_enum_field(spec, "failurePolicy", "spec", FAILURE_POLICIES)
    kind = spec.get("paramKind")
    if kind is not None:
        problems += _validate_param_kind(nested_object(spec, "paramKind"), "spec.paramKind")
    constraints = spec.get("matchConstraints")
    if constraints is None:
        problems.append(required_value("spec.matchConstraints"))
    else:
        problems += validate_match_resources(constraints, "spec.matchConstraints")
        if not nested_objects(spec, "matchConstraints", "resourceRules"):
            problems.append(required_value("spec.matchConstraints.resourceRules"))
    problems += validate_match_conditions(
        nested_objects(spec, "matchConditions"), "spec.matchConditions", has_params=kind is not None
    )
    for index, variable in enumerate(nested_objects(spec, "variables")):
        problems += _validate_variable(variable, f"spec.variables[{index}]", compiler)
    return problems


def _validate_param_kind(kind: JsonObject, path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    api_version: str = kind.get("apiVersion", "")
    group, _, version = api_version.rpartition("/")
    if not api_version:
        problems.append(required_value(f"{path}.apiVersion"))
    elif "/" in group:
        detail = f"unexpected GroupVersion string: {api_version}"
        problems.append(invalid_value(f"{path}.apiVersion", api_version, detail))
    else:
        if group and (error := dns_subdomain_error(group)):
            problems.append(invalid_value(f"{path}.apiVersion", group, error))
        if not version:
            detail = "version must be specified"
            problems.append(invalid_value(f"{path}.apiVersion", api_version, detail))
        elif error := dns_1035_label_error(version):
            problems.append(invalid_value(f"{path}.apiVersion", version, error))
    name: str = kind.get("kind", "")
    if not name:
        problems.append(required_value(f"{path}.kind"))
    elif error := dns_1035_label_error(name.lower()):
        detail = f"may have mixed case, but should otherwise match: {error}"
        problems.append(invalid_value(f"{path}.kind", name, detail))
    return problems


def _validate_variable(
    variable: JsonObject, path: str, compiler: ExpressionCompiler
) -> list[FieldError]:
    problems: list[FieldError] = []
    name: str = variable.get("name", "")
    source: str = variable.get("expression", "")
    if not name.strip():
        problems.append(required_value(f"{path}.name", "name is not specified"))
    elif not _is_identifier(name) or escape(name) == f"__{name}__":
        problems.append(invalid_value(f"{path}.name", name, "must be a valid CEL identifier"))
    if not source.strip():
        problems.append(required_value(f"{path}.expression", "expression is not specified"))
    else:
        defined = compiler.define_variable(name, source)
        if defined.program is None:
            detail = f"compilation failed: {defined.problem}"
            problems.append(invalid_value(f"{path}.expression", source, detail))
    return problems


def _message_compiler(spec: JsonObject, has_params: bool) -> ExpressionCompiler:
    """The compiler for message expressions, with the variables that these may use."""
    variables = nested_objects(spec, "variables")
    compiler = ExpressionCompiler(
        params=has_params,
        authorizer=False,
        variables=[each.get("name", "") for each in variables],
    )
    for variable in variables:
        compiler.define_variable(variable.get("name", ""), variable.get("expression", ""))
    return compiler


def _validate_validation(
    validation: JsonObject,
    path: str,
    compiler: ExpressionCompiler,
    messages_required: ExpressionCompiler,
) -> list[FieldError]:
    problems: list[FieldError] = []
    source: str = validation.get("expression", "")
    if not source.strip():
        problems.append(required_value(f"{path}.expression", "expression is not specified"))
    else:
        problems += validate_expression(compiler, source, f"{path}.expression", "bool")
    message_expression: str = validation.get("messageExpression", "")
    if message_expression and not message_expression.strip():
        detail = "must be non-empty if specified"
        problems.append(invalid_value(f"{path}.messageExpression", message_expression, detail))
    elif message_expression:
        problems += validate_expression(
            messages_required, message_expression, f"{path}.messageExpression", "string"
        )
    message: str = validation.get("message", "")
    if message and not message.strip():
        detail = "must be non-empty if specified"
        problems.append(invalid_value(f"{path}.message", message, detail))
    elif re.search("[\n\r]", message.strip()):
        detail = "must not contain line breaks"
        problems.append(invalid_value(f"{path}.message", message, detail))
    return problems + validate_enum_field(validation, "reason", path, _REASONS)


def _validate_audit_annotations(
    annotations: list[JsonObject], policy: str, compiler: ExpressionCompiler
) -> list[FieldError]:
    problems: list[FieldError] = []
    if len(annotations) > _MAX_AUDIT_ANNOTATIONS:
        detail = f"must not have more than {_MAX_AUDIT_ANNOTATIONS} auditAnnotations"
        problems.append(invalid_value("spec.auditAnnotations", annotations, detail))
    known: set[str] = set()
    for index, annotation in enumerate(annotations):
        path, key = f"spec.auditAnnotations[{index}]", annotation.get("key", "")
        if error := qualified_name_error(f"{policy}/{key}"):
            problems.append(invalid_value(f"{path}.key", f"{policy}/{key}", error))
        source: str = annotation.get("valueExpression", "").strip()
        field_path = f"{path}.valueExpression"
        if not source:
            problems.append(required_value(field_path, "valueExpression is not specified"))
        elif len(source.encode()) > _MAX_VALUE_LENGTH:
            problems.append(
                required_value(field_path, f"must not exceed {_MAX_VALUE_LENGTH} bytes in length")
            )
        else:
            problems += validate_expression(compiler, source, field_path, "string", "null_type")
        if key in known:
            problems.append(duplicate_value(f"{path}.key", key))
        known.add(key)
    return problems


def _validate_param_ref(reference: JsonObject | None, path: str) -> list[FieldError]:
    if reference is None:
        return []
    problems: list[FieldError] = []
    name, selector = reference.get("name", ""), reference.get("selector")
    detail = "name and selector are mutually exclusive"
    if name:
        if error := path_segment_error(name):
            problems.append(invalid_value(f"{path}.name", name, error))
        if selector is not None:
            problems.append(forbidden_value(f"{path}.name", detail))
    if selector is not None:
        problems += validate_label_selector(selector, f"{path}.selector")
        if name:
            problems.append(forbidden_value(f"{path}.selector", detail))
    elif not name:
        problems.append(required_value(path, "one of name or selector must be specified"))
    if not reference.get("parameterNotFoundAction"):
        problems.append(required_value(f"{path}.parameterNotFoundAction"))
    return problems + validate_enum_field(
        reference, "parameterNotFoundAction", path, ["Deny", "Allow"]
    )


def _validate_actions(actions: list[str], path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            problems.append(not_supported_value(f"{path}[{index}]", action, _ACTIONS))
        if action in actions[:index]:
            problems.append(duplicate_value(f"{path}[{index}]", action))
    if "Deny" in actions and "Warn" in actions:
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure "
            "information in the API response and headers serves no purpose)"
        )
        problems.append(invalid_value(path, actions, detail))
    if not actions:
        problems.append(required_value(path, "at least one validation action is required"))
    return problems
