"""Configurations of webhooks."""

from urllib.parse import urlsplit

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, duplicate, invalid_value, not_supported, required
from kilonova.local.kinds.admissionrules import (
    FAILURE_POLICIES,
    GROUP,
    MATCH_POLICIES,
    REINVOCATION_POLICIES,
    condition_problems,
    fill_match,
    fill_rules,
    one_word,
    rule_problems,
    selector_problems,
)
from kilonova.local.kinds.columns import AGE, NAME, count
from kilonova.local.kinds.rules import port_number
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import at, objects, part, strings
from kilonova.local.names import dns_1035_label, dns_subdomain

_REVIEW_VERSIONS = ["v1", "v1beta1"]
_SIDE_EFFECTS = ["None", "NoneOnDryRun"]
_FORM = "; desired format: https://host[/path]"


@strategy(GROUP, "ValidatingWebhookConfiguration")
class ValidatingWebhookConfigurations(Strategy):
    """Webhooks that may refuse."""

    has_generation = True
    unconditional_update = False
    columns = (NAME, count("Webhooks", "webhooks"), AGE)

    def fill(self, obj: JsonObject) -> None:
        for webhook in objects(obj, "webhooks"):
            webhook["failurePolicy"] = webhook.get("failurePolicy") or "Fail"
            fill_match(webhook)
            webhook.setdefault("timeoutSeconds", 10)
            fill_rules(objects(webhook, "rules"))
            if service := at(webhook, "clientConfig", "service"):
                service.setdefault("port", 443)

    def problems(self, obj: JsonObject) -> list[Problem]:
        problems: list[Problem] = []
        names: set[str] = set()
        for index, webhook in enumerate(objects(obj, "webhooks")):
            path = f"webhooks[{index}]"
            name = webhook.get("name", "")
            problems += _webhook_problems(webhook, path)
            problems += _version_problems(
                strings(webhook, "admissionReviewVersions"), f"{path}.admissionReviewVersions"
            )
            if name and name in names:
                problems.append(duplicate(f"{path}.name", name))
            names.add(name)
        return problems


@strategy(GROUP, "MutatingWebhookConfiguration")
class MutatingWebhookConfigurations(ValidatingWebhookConfigurations):
    """Webhooks that may change the object."""

    def fill(self, obj: JsonObject) -> None:
        super().fill(obj)
        for webhook in objects(obj, "webhooks"):
            webhook.setdefault("reinvocationPolicy", "Never")


def _webhook_problems(webhook: JsonObject, path: str) -> list[Problem]:
    problems = _name_problems(webhook.get("name", ""), f"{path}.name")
    for index, rule in enumerate(objects(webhook, "rules")):
        problems += rule_problems(rule, f"{path}.rules[{index}]")
    problems += one_word(webhook, "failurePolicy", path, FAILURE_POLICIES)
    problems += one_word(webhook, "matchPolicy", path, MATCH_POLICIES)
    effects = webhook.get("sideEffects")
    if effects is None:
        detail = f"must specify one of {', '.join(_SIDE_EFFECTS)}"
        problems.append(required(f"{path}.sideEffects", detail))
    elif effects not in _SIDE_EFFECTS:
        problems.append(not_supported(f"{path}.sideEffects", effects, _SIDE_EFFECTS))
    seconds = webhook.get("timeoutSeconds", 10)
    if not 1 <= seconds <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        problems.append(invalid_value(f"{path}.timeoutSeconds", seconds, detail))
    problems += selector_problems(webhook, path)
    problems += one_word(webhook, "reinvocationPolicy", path, REINVOCATION_POLICIES)
    problems += _client_problems(part(webhook, "clientConfig"), f"{path}.clientConfig")
    conditions = objects(webhook, "matchConditions")
    return problems + condition_problems(conditions, f"{path}.matchConditions")


def _name_problems(name: str, path: str) -> list[Problem]:
    if not name:
        return [required(path)]
    if trouble := dns_subdomain(name):
        return [invalid_value(path, name, trouble)]
    if name.count(".") < 2:
        detail = "should be a domain with at least three segments separated by dots"
        return [invalid_value(path, name, detail)]
    return []


def _client_problems(client: JsonObject, path: str) -> list[Problem]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    if url is not None:
        return _url_problems(url, f"{path}.url")
    return _service_problems(part(client, "service"), f"{path}.service")


def _url_problems(url: str, path: str) -> list[Problem]:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return [required(path, f"url must be a valid URL: {error}{_FORM}")]
    problems: list[Problem] = []
    if parts.scheme != "https":
        detail = f"'https' is the only allowed URL scheme{_FORM}"
        problems.append(invalid_value(path, parts.scheme, detail))
    user, _, host = parts.netloc.rpartition("@")
    if not host:
        problems.append(invalid_value(path, host, f"host must be specified{_FORM}"))
    if user:
        detail = "user information is not permitted in the URL"
        problems.append(invalid_value(path, user, detail))
    if parts.fragment:
        detail = "fragments are not permitted in the URL"
        problems.append(invalid_value(path, parts.fragment, detail))
    if parts.query:
        detail = "query parameters are not permitted in the URL"
        problems.append(invalid_value(path, parts.query, detail))
    return problems


def _service_problems(service: JsonObject, path: str) -> list[Problem]:
    problems = [
        required(f"{path}.{name}") for name in ("name", "namespace") if not service.get(name)
    ]
    port = service.get("port", 443)
    if port_number(port, ""):
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        problems.append(invalid_value(f"{path}.port", port, detail))
    where = service.get("path", "")
    if where in ("", "/"):
        return problems
    here = f"{path}.path"
    if where == "//":
        return [*problems, invalid_value(here, where, "segment[0] may not be empty")]
    if not where.startswith("/"):
        problems.append(invalid_value(here, where, "must start with a '/'"))
    for index, step in enumerate(where[1:].removesuffix("/").split("/")):
        if not step:
            problems.append(invalid_value(here, where, f"segment[{index}] may not be empty"))
        elif trouble := dns_subdomain(step):
            problems.append(invalid_value(here, where, f"segment[{index}]: {trouble}"))
    return problems


def _version_problems(versions: list[str], path: str) -> list[Problem]:
    known = ", ".join(_REVIEW_VERSIONS)
    if not versions:
        return [required(path, f"must specify one of {known}")]
    problems: list[Problem] = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            problems.append(invalid_value(f"{path}[{index}]", version, "duplicate version"))
        elif trouble := dns_1035_label(version):
            problems.append(invalid_value(f"{path}[{index}]", version, trouble))
    if not set(_REVIEW_VERSIONS) & set(versions):
        detail = f"must include at least one of {known}"
        problems.append(invalid_value(path, versions, detail))
    return problems
