"""What configurations of webhooks and of policies have in common: which writes they are about."""

from kilonova.api.json import JsonObject
from kilonova.local.admission.expressions import Language
from kilonova.local.errors import Problem, duplicate, invalid_value, not_supported, required
from kilonova.local.kinds.rules import label_selector_problems
from kilonova.local.kinds.walk import objects, strings
from kilonova.local.names import path_segment, qualified_name
from kilonova.local.schema.cel.environment import CompileError

GROUP = "admissionregistration.k8s.io"
FAILURE_POLICIES = ["Fail", "Ignore"]
MATCH_POLICIES = ["Equivalent", "Exact"]
REINVOCATION_POLICIES = ["IfNeeded", "Never"]

_OPERATIONS = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]
_SCOPES = ["*", "Cluster", "Namespaced"]
_MOST_CONDITIONS = 64


def fill_match(value: JsonObject) -> None:
    """Defaults of whatever selects writes."""
    value.setdefault("matchPolicy", "Equivalent")
    value.setdefault("namespaceSelector", {})
    value.setdefault("objectSelector", {})


def fill_rules(rules: list[JsonObject]) -> None:
    for rule in rules:
        rule.setdefault("scope", "*")


def one_word(value: JsonObject, name: str, path: str, allowed: list[str]) -> list[Problem]:
    """A field that may hold one of a few words."""
    word = value.get(name)
    return (
        [] if word is None or word in allowed else [not_supported(f"{path}.{name}", word, allowed)]
    )


def selector_problems(value: JsonObject, path: str) -> list[Problem]:
    """The selectors of namespaces and of objects."""
    return [
        problem
        for name in ("namespaceSelector", "objectSelector")
        for problem in label_selector_problems(value.get(name), f"{path}.{name}")
    ]


def match_resources_problems(value: JsonObject | None, path: str) -> list[Problem]:
    """`matchConstraints` of a policy, `matchResources` of a binding."""
    if value is None:
        return []
    problems = one_word(value, "matchPolicy", path, MATCH_POLICIES)
    problems += selector_problems(value, path)
    for name in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(objects(value, name)):
            here = f"{path}.{name}[{index}]"
            problems += _name_problems(strings(rule, "resourceNames"), f"{here}.resourceNames")
            problems += rule_problems(rule, here)
    return problems


def rule_problems(rule: JsonObject, path: str) -> list[Problem]:
    """Operations on resources."""
    operations = strings(rule, "operations")
    problems: list[Problem] = []
    if not operations:
        problems.append(required(f"{path}.operations"))
    problems += _lonely(operations, f"{path}.operations", "operations")
    problems += [
        not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS)
        for index, operation in enumerate(operations)
        if operation not in _OPERATIONS
    ]
    for name, words in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = strings(rule, name)
        if not values:
            problems.append(required(f"{path}.{name}"))
        problems += _lonely(values, f"{path}.{name}", words)
        if name == "apiVersions":
            problems += _empty_ones(values, f"{path}.{name}")
    problems += _resource_problems(strings(rule, "resources"), f"{path}.resources")
    return problems + one_word(rule, "scope", path, _SCOPES)


def condition_problems(
    conditions: list[JsonObject], path: str, *, params: bool = False
) -> list[Problem]:
    """`matchConditions`: names, and expressions that compile."""
    problems: list[Problem] = []
    if len(conditions) > _MOST_CONDITIONS:
        message = f"Too many: {len(conditions)}: must have at most {_MOST_CONDITIONS} items"
        problems.append(Problem(path, "FieldValueTooMany", message))
    known: set[str] = set()
    language = Language(params=params) if conditions else None
    for index, condition in enumerate(conditions):
        here, name = f"{path}[{index}]", condition.get("name", "")
        source = condition.get("expression", "").strip()
        if not source:
            problems.append(required(f"{here}.expression"))
        elif language is not None:
            problems += expression_problems(language, source, f"{here}.expression", "bool")
        if not name:
            problems.append(required(f"{here}.name"))
        elif trouble := qualified_name(name):
            problems.append(invalid_value(f"{here}.name", name, trouble))
        if name in known:
            problems.append(duplicate(f"{here}.name", name))
        known.add(name)
    return problems


def expression_problems(language: Language, source: str, path: str, *wanted: str) -> list[Problem]:
    """Why an expression does not compile, or comes to something else than is wanted."""
    try:
        language.compile(source, *wanted)
    except CompileError as error:
        return [invalid_value(path, source, str(error))]
    return []


def _name_problems(names: list[str], path: str) -> list[Problem]:
    problems: list[Problem] = []
    for index, name in enumerate(names):
        if trouble := path_segment(name):
            problems.append(invalid_value(f"{path}[{index}]", name, trouble))
        if name in names[:index]:
            problems.append(duplicate(f"{path}[{index}]", name))
    return problems


def _resource_problems(resources: list[str], path: str) -> list[Problem]:
    problems: list[Problem] = [] if resources else [required(path)]
    whole: set[str] = set()  # of x/*
    everywhere: set[str] = set()  # of */x
    names_one = False
    for index, each in enumerate(resources):
        here = f"{path}[{index}]"
        if not each:
            problems.append(required(here))
            continue
        resource, slash, part = each.partition("/")
        if not slash:
            names_one = each != "*"
            continue
        if resource in whole:
            detail = f"if '{resource}/*' is present, must not specify {each}"
            problems.append(invalid_value(here, each, detail))
        if part in everywhere:
            detail = f"if '*/{part}' is present, must not specify {each}"
            problems.append(invalid_value(here, each, detail))
        if part == "*":
            whole.add(resource)
        if resource == "*":
            everywhere.add(part)
    if len(resources) > 1 and "*/*" in resources:
        detail = "if '*/*' is present, must not specify other resources"
        problems.append(invalid_value(path, resources, detail))
    if "*" in resources and names_one:
        detail = "if '*' is present, must not specify other resources without subresources"
        problems.append(invalid_value(path, resources, detail))
    return problems


def _lonely(values: list[str], path: str, what: str) -> list[Problem]:
    if len(values) > 1 and "*" in values:
        detail = f"if '*' is present, must not specify other {what}"
        return [invalid_value(path, values, detail)]
    return []


def _empty_ones(values: list[str], path: str) -> list[Problem]:
    return [required(f"{path}[{index}]") for index, value in enumerate(values) if not value]
