"""What webhook configurations and admission policies share: the requests that they match."""

from kilonova.api.json import JsonObject
from kilonova.cel.environment import CompileError
from kilonova.local.apimachinery.errors import (
    FieldError,
    duplicate_value,
    invalid_value,
    not_supported_value,
    required_value,
)
from kilonova.local.apimachinery.names import path_segment_error, qualified_name_error
from kilonova.local.apimachinery.unstructured import nested_objects, nested_strings
from kilonova.local.apiserver.admission.expressions import ExpressionCompiler
from kilonova.local.apiserver.kinds.validation import validate_label_selector

GROUP = "admissionregistration.k8s.io"
FAILURE_POLICIES = ["Fail", "Ignore"]
MATCH_POLICIES = ["Equivalent", "Exact"]
REINVOCATION_POLICIES = ["IfNeeded", "Never"]

_OPERATIONS = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]
_SCOPES = ["*", "Cluster", "Namespaced"]
_MAX_MATCH_CONDITIONS = 64


def set_match_defaults(value: JsonObject) -> None:
    """Set the defaults of a webhook's or a policy's match fields."""
    value.setdefault("matchPolicy", "Equivalent")
    value.setdefault("namespaceSelector", {})
    value.setdefault("objectSelector", {})


def set_rule_defaults(rules: list[JsonObject]) -> None:
    for rule in rules:
        rule.setdefault("scope", "*")


def validate_enum_field(
    value: JsonObject, name: str, path: str, allowed: list[str]
) -> list[FieldError]:
    """A required field with one of the allowed values."""
    text = value.get(name)
    return (
        []
        if text is None or text in allowed
        else [not_supported_value(f"{path}.{name}", text, allowed)]
    )


def validate_selectors(value: JsonObject, path: str) -> list[FieldError]:
    """`namespaceSelector` and `objectSelector`."""
    return [
        problem
        for name in ("namespaceSelector", "objectSelector")
        for problem in validate_label_selector(value.get(name), f"{path}.{name}")
    ]


def validate_match_resources(value: JsonObject | None, path: str) -> list[FieldError]:
    """`matchConstraints` of a policy, `matchResources` of a binding."""
    if value is None:
        return []
    problems = validate_enum_field(value, "matchPolicy", path, MATCH_POLICIES)
    problems += validate_selectors(value, path)
    for name in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(nested_objects(value, name)):
            item_path = f"{path}.{name}[{index}]"
            problems += _validate_resource_names(
                nested_strings(rule, "resourceNames"), f"{item_path}.resourceNames"
            )
            problems += validate_rule(rule, item_path)
    return problems


def validate_rule(rule: JsonObject, path: str) -> list[FieldError]:
    """Operations and resources of a rule."""
    operations = nested_strings(rule, "operations")
    problems: list[FieldError] = []
    if not operations:
        problems.append(required_value(f"{path}.operations"))
    problems += _validate_wildcard_alone(operations, f"{path}.operations", "operations")
    problems += [
        not_supported_value(f"{path}.operations[{index}]", operation, _OPERATIONS)
        for index, operation in enumerate(operations)
        if operation not in _OPERATIONS
    ]
    for name, description in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = nested_strings(rule, name)
        if not values:
            problems.append(required_value(f"{path}.{name}"))
        problems += _validate_wildcard_alone(values, f"{path}.{name}", description)
        if name == "apiVersions":
            problems += _validate_not_empty(values, f"{path}.{name}")
    problems += _validate_resources(nested_strings(rule, "resources"), f"{path}.resources")
    return problems + validate_enum_field(rule, "scope", path, _SCOPES)


def validate_match_conditions(
    conditions: list[JsonObject], path: str, *, has_params: bool = False
) -> list[FieldError]:
    """`matchConditions`: names, and expressions that compile."""
    problems: list[FieldError] = []
    if len(conditions) > _MAX_MATCH_CONDITIONS:
        message = f"Too many: {len(conditions)}: must have at most {_MAX_MATCH_CONDITIONS} items"
        problems.append(FieldError(path, "FieldValueTooMany", message))
    known: set[str] = set()
    compiler = ExpressionCompiler(params=has_params) if conditions else None
    for index, condition in enumerate(conditions):
        item_path, name = f"{path}[{index}]", condition.get("name", "")
        source = condition.get("expression", "").strip()
        if not source:
            problems.append(required_value(f"{item_path}.expression"))
        elif compiler is not None:
            problems += validate_expression(compiler, source, f"{item_path}.expression", "bool")
        if not name:
            problems.append(required_value(f"{item_path}.name"))
        elif error := qualified_name_error(name):
            problems.append(invalid_value(f"{item_path}.name", name, error))
        if name in known:
            problems.append(duplicate_value(f"{item_path}.name", name))
        known.add(name)
    return problems


def validate_expression(
    compiler: ExpressionCompiler, source: str, path: str, *result_types: str
) -> list[FieldError]:
    """The compile error of an expression, or an error if its result has none of `result_types`."""
    try:
        compiler.compile(source, *result_types)
    except CompileError as error:
        return [invalid_value(path, source, str(error))]
    return []


def _validate_resource_names(names: list[str], path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    for index, name in enumerate(names):
        if error := path_segment_error(name):
            problems.append(invalid_value(f"{path}[{index}]", name, error))
        if name in names[:index]:
            problems.append(duplicate_value(f"{path}[{index}]", name))
    return problems


def _validate_resources(resources: list[str], path: str) -> list[FieldError]:
    problems: list[FieldError] = [] if resources else [required_value(path)]
    with_all_subresources: set[str] = set()  # resources with x/*
    with_all_resources: set[str] = set()  # subresources with */x
    names_resource = False
    for index, each in enumerate(resources):
        item_path = f"{path}[{index}]"
        if not each:
            problems.append(required_value(item_path))
            continue
        resource, slash, part = each.partition("/")
        if not slash:
            names_resource = each != "*"
            continue
        if resource in with_all_subresources:
            detail = f"if '{resource}/*' is present, must not specify {each}"
            problems.append(invalid_value(item_path, each, detail))
        if part in with_all_resources:
            detail = f"if '*/{part}' is present, must not specify {each}"
            problems.append(invalid_value(item_path, each, detail))
        if part == "*":
            with_all_subresources.add(resource)
        if resource == "*":
            with_all_resources.add(part)
    if len(resources) > 1 and "*/*" in resources:
        detail = "if '*/*' is present, must not specify other resources"
        problems.append(invalid_value(path, resources, detail))
    if "*" in resources and names_resource:
        detail = "if '*' is present, must not specify other resources without subresources"
        problems.append(invalid_value(path, resources, detail))
    return problems


def _validate_wildcard_alone(values: list[str], path: str, description: str) -> list[FieldError]:
    if len(values) > 1 and "*" in values:
        detail = f"if '*' is present, must not specify other {description}"
        return [invalid_value(path, values, detail)]
    return []


def _validate_not_empty(values: list[str], path: str) -> list[FieldError]:
    return [required_value(f"{path}[{index}]") for index, value in enumerate(values) if not value]
