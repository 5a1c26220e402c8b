"""ValidatingWebhookConfigurations and MutatingWebhookConfigurations."""

from urllib.parse import urlsplit

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    FieldError,
    duplicate_value,
    invalid_value,
    not_supported_value,
    required_value,
)
from kilonova.local.apimachinery.names import dns_1035_label_error, dns_subdomain_error
from kilonova.local.apimachinery.unstructured import (
    nested_object,
    nested_objects,
    nested_strings,
    nested_value,
)
from kilonova.local.apiserver.kinds.admissionregistration.match_validation import (
    FAILURE_POLICIES,
    GROUP,
    MATCH_POLICIES,
    REINVOCATION_POLICIES,
    set_match_defaults,
    set_rule_defaults,
    validate_enum_field,
    validate_match_conditions,
    validate_rule,
    validate_selectors,
)
from kilonova.local.apiserver.kinds.columns import AGE, NAME, count_column
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy
from kilonova.local.apiserver.kinds.validation import validate_port_number

_REVIEW_VERSIONS = ["v1", "v1beta1"]
_SIDE_EFFECTS = ["None", "NoneOnDryRun"]
_URL_FORMAT_HINT = "; desired format: https://host[/path]"


@register_strategy(GROUP, "ValidatingWebhookConfiguration")
class ValidatingWebhookConfigurationStrategy(BuiltinStrategy):
    """Webhooks that may reject a request."""

    has_generation = True
    allows_unconditional_update = False
    columns = (NAME, count_column("Webhooks", "webhooks"), AGE)

    def set_defaults(self, obj: JsonObject) -> None:
        for webhook in nested_objects(obj, "webhooks"):
            webhook["failurePolicy"] = webhook.get("failurePolicy") or "Fail"
            set_match_defaults(webhook)
            webhook.setdefault("timeoutSeconds", 10)
            set_rule_defaults(nested_objects(webhook, "rules"))
            if service := nested_value(webhook, "clientConfig", "service"):
                service.setdefault("port", 443)

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        problems: list[FieldError] = []
        names: set[str] = set()
        for index, webhook in enumerate(nested_objects(obj, "webhooks")):
            path = f"webhooks[{index}]"
            name = webhook.get("name", "")
            problems += _validate_webhook(webhook, path)
            problems += _validate_review_versions(
                nested_strings(webhook, "admissionReviewVersions"),
                f"{path}.admissionReviewVersions",
            )
            if name and name in names:
                problems.append(duplicate_value(f"{path}.name", name))
            names.add(name)
        return problems


@register_strategy(GROUP, "MutatingWebhookConfiguration")
class MutatingWebhookConfigurationStrategy(ValidatingWebhookConfigurationStrategy):
    """Webhooks that may modify an object."""

    def set_defaults(self, obj: JsonObject) -> None:
        super().set_defaults(obj)
        for webhook in nested_objects(obj, "webhooks"):
            webhook.setdefault("reinvocationPolicy", "Never")


def _validate_webhook(webhook: JsonObject, path: str) -> list[FieldError]:
    problems = _validate_name(webhook.get("name", ""), f"{path}.name")
    for index, rule in enumerate(nested_objects(webhook, "rules")):
        problems += validate_rule(rule, f"{path}.rules[{index}]")
    problems += validate_enum_field(webhook, "failurePolicy", path, FAILURE_POLICIES)
    problems += validate_enum_field(webhook, "matchPolicy", path, MATCH_POLICIES)
    effects = webhook.get("sideEffects")
    if effects is None:
        detail = f"must specify one of {', '.join(_SIDE_EFFECTS)}"
        problems.append(required_value(f"{path}.sideEffects", detail))
    elif effects not in _SIDE_EFFECTS:
        problems.append(not_supported_value(f"{path}.sideEffects", effects, _SIDE_EFFECTS))
    seconds = webhook.get("timeoutSeconds", 10)
    if not 1 <= seconds <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        problems.append(invalid_value(f"{path}.timeoutSeconds", seconds, detail))
    problems += validate_selectors(webhook, path)
    problems += validate_enum_field(webhook, "reinvocationPolicy", path, REINVOCATION_POLICIES)
    problems += _validate_client_config(
        nested_object(webhook, "clientConfig"), f"{path}.clientConfig"
    )
    conditions = nested_objects(webhook, "matchConditions")
    return problems + validate_match_conditions(conditions, f"{path}.matchConditions")


def _validate_name(name: str, path: str) -> list[FieldError]:
    if not name:
        return [required_value(path)]
    if error := dns_subdomain_error(name):
        return [invalid_value(path, name, error)]
    if name.count(".") < 2:
        detail = "should be a domain with at least three segments separated by dots"
        return [invalid_value(path, name, detail)]
    return []


def _validate_client_config(client: JsonObject, path: str) -> list[FieldError]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [required_value(path, "exactly one of url or service is required")]
    if url is not None:
        return _validate_url(url, f"{path}.url")
    return _validate_service(nested_object(client, "service"), f"{path}.service")


def _validate_url(url: str, path: str) -> list[FieldError]:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return [required_value(path, f"url must be a valid URL: {error}{_URL_FORMAT_HINT}")]
    problems: list[FieldError] = []
    if parts.scheme != "https":
        detail = f"'https' is the only allowed URL scheme{_URL_FORMAT_HINT}"
        problems.append(invalid_value(path, parts.scheme, detail))
    user, _, host = parts.netloc.rpartition("@")
    if not host:
        problems.append(invalid_value(path, host, f"host must be specified{_URL_FORMAT_HINT}"))
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


def _validate_service(service: JsonObject, path: str) -> list[FieldError]:
    problems = [
        required_value(f"{path}.{name}") for name in ("name", "namespace") if not service.get(name)
    ]
    port = service.get("port", 443)
    if validate_port_number(port, ""):
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        problems.append(invalid_value(f"{path}.port", port, detail))
    url_path = service.get("path", "")
    if url_path in ("", "/"):
        return problems
    field_path = f"{path}.path"
    if url_path == "//":
        return [*problems, invalid_value(field_path, url_path, "segment[0] may not be empty")]
    if not url_path.startswith("/"):
        problems.append(invalid_value(field_path, url_path, "must start with a '/'"))
    for index, step in enumerate(url_path[1:].removesuffix("/").split("/")):
        if not step:
            problems.append(
                invalid_value(field_path, url_path, f"segment[{index}] may not be empty")
            )
        elif error := dns_subdomain_error(step):
            problems.append(invalid_value(field_path, url_path, f"segment[{index}]: {error}"))
    return problems


def _validate_review_versions(versions: list[str], path: str) -> list[FieldError]:
    known = ", ".join(_REVIEW_VERSIONS)
    if not versions:
        return [required_value(path, f"must specify one of {known}")]
    problems: list[FieldError] = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            problems.append(invalid_value(f"{path}[{index}]", version, "duplicate version"))
        elif error := dns_1035_label_error(version):
            problems.append(invalid_value(f"{path}[{index}]", version, error))
    if not set(_REVIEW_VERSIONS) & set(versions):
        detail = f"must include at least one of {known}"
        problems.append(invalid_value(path, versions, detail))
    return problems
