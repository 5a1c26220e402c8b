"""Configurations of admission: webhooks and policies."""

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, duplicate, invalid_value, not_supported, required
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import AGE, NAME, UNSET, count, label_selector, text
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import at, inside, objects, part
from kilonova.local.names import dns_subdomain

_GROUP = "admissionregistration.k8s.io"


@strategy(_GROUP, "ValidatingWebhookConfiguration")
class ValidatingWebhookConfigurations(Strategy):
    """Webhooks that may refuse."""

    has_generation = True
    unconditional_update = False
    columns = (NAME, count("Webhooks", "webhooks"), AGE)

    def fill(self, obj: JsonObject) -> None:
        for webhook in objects(obj, "webhooks"):
            webhook["failurePolicy"] = webhook.get("failurePolicy") or "Fail"
            _fill_match(webhook)
            webhook.setdefault("timeoutSeconds", 10)
            _fill_rules(objects(webhook, "rules"))
            if service := at(webhook, "clientConfig", "service"):
                service.setdefault("port", 443)

    def problems(self, obj: JsonObject) -> list[Problem]:
        problems: list[Problem] = []
        names: set[str] = set()
        for index, webhook in enumerate(objects(obj, "webhooks")):
            path = f"webhooks[{index}]"
            name = webhook.get("name", "")
            if name in names:
                problems.append(duplicate(f"{path}.name", name))
            names.add(name)
            problems += _webhook_problems(webhook, path)
        return problems


@strategy(_GROUP, "MutatingWebhookConfiguration")
class MutatingWebhookConfigurations(ValidatingWebhookConfigurations):
    """Webhooks that may change the object."""

    def fill(self, obj: JsonObject) -> None:
        super().fill(obj)
        for webhook in objects(obj, "webhooks"):
            webhook.setdefault("reinvocationPolicy", "Never")


def _param_kind(obj: JsonObject) -> str:
    kind = at(obj, "spec", "paramKind")
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else UNSET


def _param_ref(obj: JsonObject) -> str:
    reference = at(obj, "spec", "paramRef")
    if not reference:
        return UNSET
    if reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{reference['name']}"
    return label_selector(reference.get("selector")) or UNSET


class _Policies(Strategy):
    has_generation = True
    unconditional_update = False

    def fill(self, obj: JsonObject) -> None:
        spec = inside(obj, "spec")
        spec.setdefault("failurePolicy", "Fail")
        _fill_match_resources(spec.get("matchConstraints"))


@strategy(_GROUP, "ValidatingAdmissionPolicy")
class ValidatingAdmissionPolicies(_Policies):
    """Rules in CEL that may refuse."""

    columns = (
        NAME,
        count("Validations", "spec", "validations"),
        Column("ParamKind", "string", lambda obj, _: _param_kind(obj)),
        AGE,
    )


@strategy(_GROUP, "MutatingAdmissionPolicy")
class MutatingAdmissionPolicies(_Policies):
    """Rules in CEL that may change the object."""

    columns = (
        NAME,
        count("Mutations", "spec", "mutations"),
        Column("ParamKind", "string", lambda obj, _: _param_kind(obj)),
        AGE,
    )


@strategy(_GROUP, "ValidatingAdmissionPolicyBinding")
@strategy(_GROUP, "MutatingAdmissionPolicyBinding")
class AdmissionPolicyBindings(Strategy):
    """Where a policy applies."""

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


def _fill_match(value: JsonObject) -> None:
    value.setdefault("matchPolicy", "Equivalent")
    value.setdefault("namespaceSelector", {})
    value.setdefault("objectSelector", {})


def _fill_match_resources(value: JsonObject | None) -> None:
    if value is not None:
        _fill_match(value)
        _fill_rules(objects(value, "resourceRules") + objects(value, "excludeResourceRules"))


def _fill_rules(rules: list[JsonObject]) -> None:
    for rule in rules:
        rule.setdefault("scope", "*")


def _webhook_problems(webhook: JsonObject, path: str) -> list[Problem]:
    problems: list[Problem] = []
    name = webhook.get("name", "")
    if not name:
        problems.append(required(f"{path}.name"))
    elif trouble := dns_subdomain(name):
        problems.append(invalid_value(f"{path}.name", name, trouble))
    elif name.count(".") < 2:
        detail = "should be a domain with at least three segments separated by dots"
        problems.append(invalid_value(f"{path}.name", name, detail))
    if not webhook.get("admissionReviewVersions"):
        detail = "must specify one of v1, v1beta1"
        problems.append(required(f"{path}.admissionReviewVersions", detail))
    if webhook.get("sideEffects") not in ("None", "NoneOnDryRun"):
        effects, allowed = webhook.get("sideEffects"), ["None", "NoneOnDryRun"]
        if effects:
            problems.append(not_supported(f"{path}.sideEffects", effects, allowed))
        else:
            detail = "must specify one of None, NoneOnDryRun"
            problems.append(required(f"{path}.sideEffects", detail))
    seconds = webhook.get("timeoutSeconds", 10)
    if not 1 <= seconds <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        problems.append(invalid_value(f"{path}.timeoutSeconds", seconds, detail))
    client = part(webhook, "clientConfig")
    if bool(client.get("url")) == bool(client.get("service")):
        detail = "exactly one of url or service is required"
        problems.append(required(f"{path}.clientConfig", detail))
    return problems
