"""Policies: rules in CEL that may refuse or change objects, and where they apply."""

import re

from kilonova.api.json import JsonObject
from kilonova.local.admission.expressions import Language
from kilonova.local.errors import (
    Problem,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from kilonova.local.kinds.admissionrules import (
    FAILURE_POLICIES,
    GROUP,
    condition_problems,
    expression_problems,
    fill_match,
    fill_rules,
    match_resources_problems,
    one_word,
)
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import AGE, NAME, UNSET, count, label_selector, text
from kilonova.local.kinds.rules import label_selector_problems
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import at, inside, objects, part, strings
from kilonova.local.names import dns_1035_label, dns_subdomain, path_segment, qualified_name
from kilonova.local.schema.cel.types import escape

_ACTIONS = ["Audit", "Deny", "Warn"]
_REASONS = ["Forbidden", "Invalid", "RequestEntityTooLarge"]
_MOST_ANNOTATIONS = 20
_LONGEST_VALUE = 5 * 1024
_is_identifier = re.compile("[_a-zA-Z][_a-zA-Z0-9]*").fullmatch


def _param_kind(obj: JsonObject) -> str:
    kind = at(obj, "spec", "paramKind")
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else UNSET


PARAM_KIND = Column("ParamKind", "string", lambda obj, _: _param_kind(obj))


def _param_ref(obj: JsonObject) -> str:
    reference = at(obj, "spec", "paramRef")
    if not reference:
        return UNSET
    if reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{reference['name']}"
    return label_selector(reference.get("selector")) or UNSET


class Policies(Strategy):
    """What validating and mutating policies have in common."""

    has_generation = True
    unconditional_update = False

    def fill(self, obj: JsonObject) -> None:
        spec = inside(obj, "spec")
        spec.setdefault("failurePolicy", "Fail")
        _fill_match_resources(spec.get("matchConstraints"))


@strategy(GROUP, "ValidatingAdmissionPolicy")
class ValidatingAdmissionPolicies(Policies):
    """Rules in CEL that may refuse."""

    columns = (
        NAME,
        count("Validations", "spec", "validations"),
        PARAM_KIND,
        AGE,
    )

    def problems(self, obj: JsonObject) -> list[Problem]:
        spec = part(obj, "spec")
        has_params = spec.get("paramKind") is not None
        language = Language(
            params=has_params,
            variables=[each.get("name", "") for each in objects(spec, "variables")],
        )
        problems = common_problems(spec, language)
        validations = objects(spec, "validations")
        annotations = objects(spec, "auditAnnotations")
        if not validations and not annotations:
            detail = "validations or auditAnnotations must contain at least one item"
            names = ("validations", "auditAnnotations")
            return problems + [required(f"spec.{name}", detail) for name in names]
        wordless = _without_authorizer(spec, has_params)
        for index, validation in enumerate(validations):
            path = f"spec.validations[{index}]"
            problems += _validation_problems(validation, path, language, wordless)
        name = part(obj, "metadata").get("name", "")
        return problems + _annotation_problems(annotations, name, language)


class Bindings(Strategy):
    """Where a policy applies, and with which parameters."""

    has_generation = True
    unconditional_update = False
    columns = (
        NAME,
        text("PolicyName", "spec", "policyName"),
        Column("ParamRef", "string", lambda obj, _: _param_ref(obj)),
        AGE,
    )

    def fill(self, obj: JsonObject) -> None:
        _fill_match_resources(inside(obj, "spec").get("matchResources"))

    def problems(self, obj: JsonObject) -> list[Problem]:
        spec = part(obj, "spec")
        problems: list[Problem] = []
        name = spec.get("policyName", "")
        if not name:
            problems.append(required("spec.policyName"))
        elif trouble := dns_subdomain(name):
            problems.append(invalid_value("spec.policyName", name, trouble))
        problems += _param_ref_problems(spec.get("paramRef"), "spec.paramRef")
        return problems + match_resources_problems(
            spec.get("matchResources"), "spec.matchResources"
        )


@strategy(GROUP, "ValidatingAdmissionPolicyBinding")
class ValidatingAdmissionPolicyBindings(Bindings):
    """Where a policy may refuse."""

    def problems(self, obj: JsonObject) -> list[Problem]:
        actions = strings(obj, "spec", "validationActions")
        return super().problems(obj) + _action_problems(actions, "spec.validationActions")


def _fill_match_resources(value: JsonObject | None) -> None:
    if value is not None:
        fill_match(value)
        fill_rules(objects(value, "resourceRules") + objects(value, "excludeResourceRules"))


def common_problems(spec: JsonObject, language: Language) -> list[Problem]:
    """Failure policy, parameters, matching and variables, which `language` learns."""
    problems = one_word(spec, "failurePolicy", "spec", FAILURE_POLICIES)
    kind = spec.get("paramKind")
    if kind is not None:
        problems += _param_kind_problems(part(spec, "paramKind"), "spec.paramKind")
    constraints = spec.get("matchConstraints")
    if constraints is None:
        problems.append(required("spec.matchConstraints"))
    else:
        problems += match_resources_problems(constraints, "spec.matchConstraints")
        if not objects(spec, "matchConstraints", "resourceRules"):
            problems.append(required("spec.matchConstraints.resourceRules"))
    problems += condition_problems(
        objects(spec, "matchConditions"), "spec.matchConditions", params=kind is not None
    )
    for index, variable in enumerate(objects(spec, "variables")):
        problems += _variable_problems(variable, f"spec.variables[{index}]", language)
    return problems


def _param_kind_problems(kind: JsonObject, path: str) -> list[Problem]:
    problems: list[Problem] = []
    given: str = kind.get("apiVersion", "")
    group, _, version = given.rpartition("/")
    if not given:
        problems.append(required(f"{path}.apiVersion"))
    elif "/" in group:
        detail = f"unexpected GroupVersion string: {given}"
        problems.append(invalid_value(f"{path}.apiVersion", given, detail))
    else:
        if group and (trouble := dns_subdomain(group)):
            problems.append(invalid_value(f"{path}.apiVersion", group, trouble))
        if not version:
            detail = "version must be specified"
            problems.append(invalid_value(f"{path}.apiVersion", given, detail))
        elif trouble := dns_1035_label(version):
            problems.append(invalid_value(f"{path}.apiVersion", version, trouble))
    name: str = kind.get("kind", "")
    if not name:
        problems.append(required(f"{path}.kind"))
    elif trouble := dns_1035_label(name.lower()):
        detail = f"may have mixed case, but should otherwise match: {trouble}"
        problems.append(invalid_value(f"{path}.kind", name, detail))
    return problems


def _variable_problems(variable: JsonObject, path: str, language: Language) -> list[Problem]:
    problems: list[Problem] = []
    name: str = variable.get("name", "")
    source: str = variable.get("expression", "")
    if not name.strip():
        problems.append(required(f"{path}.name", "name is not specified"))
    elif not _is_identifier(name) or escape(name) == f"__{name}__":
        problems.append(invalid_value(f"{path}.name", name, "must be a valid CEL identifier"))
    if not source.strip():
        problems.append(required(f"{path}.expression", "expression is not specified"))
    else:
        defined = language.define(name, source)
        if defined.program is None:
            detail = f"compilation failed: {defined.problem}"
            problems.append(invalid_value(f"{path}.expression", source, detail))
    return problems


def _without_authorizer(spec: JsonObject, has_params: bool) -> Language:
    """What expressions of messages can speak of."""
    variables = objects(spec, "variables")
    language = Language(
        params=has_params,
        authorizer=False,
        variables=[each.get("name", "") for each in variables],
    )
    for variable in variables:
        language.define(variable.get("name", ""), variable.get("expression", ""))
    return language


def _validation_problems(
    validation: JsonObject, path: str, language: Language, wordless: Language
) -> list[Problem]:
    problems: list[Problem] = []
    source: str = validation.get("expression", "")
    if not source.strip():
        problems.append(required(f"{path}.expression", "expression is not specified"))
    else:
        problems += expression_problems(language, source, f"{path}.expression", "bool")
    saying: str = validation.get("messageExpression", "")
    if saying and not saying.strip():
        detail = "must be non-empty if specified"
        problems.append(invalid_value(f"{path}.messageExpression", saying, detail))
    elif saying:
        problems += expression_problems(wordless, saying, f"{path}.messageExpression", "string")
    message: str = validation.get("message", "")
    if message and not message.strip():
        detail = "must be non-empty if specified"
        problems.append(invalid_value(f"{path}.message", message, detail))
    elif re.search("[\n\r]", message.strip()):
        detail = "must not contain line breaks"
        problems.append(invalid_value(f"{path}.message", message, detail))
    return problems + one_word(validation, "reason", path, _REASONS)


def _annotation_problems(
    annotations: list[JsonObject], policy: str, language: Language
) -> list[Problem]:
    problems: list[Problem] = []
    if len(annotations) > _MOST_ANNOTATIONS:
        detail = f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"
        problems.append(invalid_value("spec.auditAnnotations", annotations, detail))
    known: set[str] = set()
    for index, annotation in enumerate(annotations):
        path, key = f"spec.auditAnnotations[{index}]", annotation.get("key", "")
        if trouble := qualified_name(f"{policy}/{key}"):
            problems.append(invalid_value(f"{path}.key", f"{policy}/{key}", trouble))
        source: str = annotation.get("valueExpression", "").strip()
        here = f"{path}.valueExpression"
        if not source:
            problems.append(required(here, "valueExpression is not specified"))
        elif len(source.encode()) > _LONGEST_VALUE:
            problems.append(required(here, f"must not exceed {_LONGEST_VALUE} bytes in length"))
        else:
            problems += expression_problems(language, source, here, "string", "null_type")
        if key in known:
            problems.append(duplicate(f"{path}.key", key))
        known.add(key)
    return problems


def _param_ref_problems(reference: JsonObject | None, path: str) -> list[Problem]:
    if reference is None:
        return []
    problems: list[Problem] = []
    name, selector = reference.get("name", ""), reference.get("selector")
    exclusive = "name and selector are mutually exclusive"
    if name:
        if trouble := path_segment(name):
            problems.append(invalid_value(f"{path}.name", name, trouble))
        if selector is not None:
            problems.append(forbidden_field(f"{path}.name", exclusive))
    if selector is not None:
        problems += label_selector_problems(selector, f"{path}.selector")
        if name:
            problems.append(forbidden_field(f"{path}.selector", exclusive))
    elif not name:
        problems.append(required(path, "one of name or selector must be specified"))
    if not reference.get("parameterNotFoundAction"):
        problems.append(required(f"{path}.parameterNotFoundAction"))
    return problems + one_word(reference, "parameterNotFoundAction", path, ["Deny", "Allow"])


def _action_problems(actions: list[str], path: str) -> list[Problem]:
    problems: list[Problem] = []
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            problems.append(not_supported(f"{path}[{index}]", action, _ACTIONS))
        if action in actions[:index]:
            problems.append(duplicate(f"{path}[{index}]", action))
    if "Deny" in actions and "Warn" in actions:
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure "
            "information in the API response and headers serves no purpose)"
        )
        problems.append(invalid_value(path, actions, detail))
    if not actions:
        problems.append(required(path, "at least one validation action is required"))
    return problems
