"""Validation of CustomResourceDefinitions, with Kubernetes' messages in Kubernetes' order.

As in Kubernetes, errors in settings that all versions share are reported as if they were set once
for all versions (`spec.validation.…` rather than `spec.versions[0].schema.…`).
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    FieldError,
    forbidden_value,
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
from kilonova.local.apiserver.customresources.trusted_schemas import schema_digest
from kilonova.local.apiserver.customresources.version_validation import (
    MANY_RULES_THRESHOLD,
    count_new_rules,
    has_status_subresource,
    validate_deprecation,
    validate_printer_columns,
    validate_selectable_fields,
    validate_subresources,
    validate_version_schema,
)
from kilonova.local.objects.crd_names import is_established, stored_versions

_APPROVAL = "api-approved.kubernetes.io"
_APPROVAL_RULES = "see https://github.com/kubernetes/enhancements/pull/1111"
_IMMUTABLE = "field is immutable"


def validate_definition(definition: JsonObject) -> list[FieldError]:
    """Validate a new or changed definition; its metadata is validated elsewhere."""
    spec: JsonObject = definition["spec"]
    slow = is_validation_slow(definition)
    problems = list(_validate_spec_cached(spec)) if slow else _validate_spec(spec)
    problems += _validate_stored_versions(definition)
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        problems.append(invalid_value("spec.preserveUnknownFields", True, detail))
    return problems


def is_validation_slow(definition: JsonObject) -> bool:
    """Whether `validate_definition` takes long and its result is not cached."""
    versions = nested_objects(definition, "spec", "versions")
    return sum(map(count_new_rules, versions)) >= MANY_RULES_THRESHOLD


_CACHE_SIZE = 64
_cached_errors: dict[bytes, list[FieldError]] = {}
"""Errors of specs with many rules, by content. Larger than the number of such specs written
concurrently, since an entry must survive from the compile thread to the write.
"""


def _validate_spec_cached(spec: JsonObject) -> list[FieldError]:
    key = schema_digest(spec)
    found = _cached_errors.get(key)
    if found is None:
        found = _validate_spec(spec)
        while len(_cached_errors) >= _CACHE_SIZE:
            _cached_errors.pop(next(iter(_cached_errors)), None)
        _cached_errors[key] = found
    return found


def validate_definition_name(definition: JsonObject) -> list[FieldError]:
    """The name of a new definition must be `<plural>.<group>`."""
    spec = definition["spec"]
    name = definition["metadata"].get("name", "")
    problems: list[FieldError] = []
    if name != f"{nested_object(spec, 'names').get('plural', '')}.{spec.get('group', '')}":
        detail = 'must be spec.names.plural+"."+spec.group'
        problems.append(invalid_value("metadata.name", name, detail))
    return problems


def validate_definition_update(new: JsonObject, old: JsonObject) -> list[FieldError]:
    """Fields of a definition that are immutable: those that its instances are stored by."""
    problems: list[FieldError] = []
    if is_established(old):
        problems += _validate_immutable(new, old, "scope")
        problems += _validate_immutable(new, old, "names", "kind")
    problems += _validate_immutable(new, old, "group")
    problems += _validate_immutable(new, old, "names", "plural")
    if _approval_state(new)[0] != _approval_state(old)[0]:
        problems += validate_approval(new)
    return problems


def validate_approval(definition: JsonObject) -> list[FieldError]:
    """Groups of the Kubernetes project require the API approval annotation."""
    group: str = definition["spec"].get("group", "")
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return []
    state, detail = _approval_state(definition)
    path = f"metadata.annotations[{_APPROVAL}]"
    if state == "missing":
        return [required_value(path, detail)]
    if state == "invalid":
        return [invalid_value(path, definition["metadata"]["annotations"][_APPROVAL], detail)]
    return []


def _approval_state(definition: JsonObject) -> tuple[str, str]:
    annotation: str = nested_object(definition, "metadata", "annotations").get(_APPROVAL, "")
    if not annotation:
        return (
            "missing",
            f'protected groups must have approval annotation "{_APPROVAL}", {_APPROVAL_RULES}',
        )
    if annotation.startswith("unapproved"):
        return "bypassed", ""
    try:
        url = urlsplit(annotation)
    except ValueError:
        url = urlsplit("")
    if url.scheme and url.netloc:
        return "approved", ""
    return (
        "invalid",
        f'protected groups must have approval annotation "{_APPROVAL}" with either a URL or a '
        f'reason starting with "unapproved", {_APPROVAL_RULES}',
    )


def _validate_spec(spec: JsonObject) -> list[FieldError]:
    versions = nested_objects(spec, "versions")
    problems = _validate_group(spec.get("group", ""))
    problems += _validate_enum("spec.scope", spec.get("scope", ""), ["Cluster", "Namespaced"])
    for index, version in enumerate(versions):
        if not nested_value(version, "schema", "openAPIV3Schema"):
            problems.append(required_value(f"spec.versions[{index}].schema.openAPIV3Schema"))
    shared = {part for part in _SHARED_FIELDS if _is_shared_by_versions(versions, part)}
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        if error := dns_1035_label_error(version.get("name", "")):
            problems.append(invalid_value(f"{path}.name", version.get("name", ""), error))
        problems += validate_deprecation(version, path)
        own = [part for part in _SHARED_FIELDS if part not in shared]
        problems += _validate_version_parts(version, path, own, has_status_subresource(version))
    problems += _validate_versions(versions)
    names = nested_object(spec, "names")
    for name in ("plural", "singular", "kind", "listKind"):
        if not names.get(name):
            problems.append(required_value(f"spec.names.{name}"))
    problems += _validate_names(names)
    if versions:
        common = [part for part in _SHARED_FIELDS if part in shared]
        any_status = any(has_status_subresource(version) for version in versions)
        problems += _validate_version_parts(versions[0], "spec", common, any_status)
    return problems + _validate_conversion(nested_object(spec, "conversion"))


_SHARED_FIELDS = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
"""Fields of a version that may be the same in all versions."""


def _is_shared_by_versions(versions: Sequence[JsonObject], field: str) -> bool:
    return all(version.get(field) == versions[0].get(field) for version in versions)


def _validate_version_parts(
    version: JsonObject, path: str, parts: Sequence[str], status: bool
) -> list[FieldError]:
    """Errors of some of a version's fields; `path` is `spec` for fields that all versions share."""
    problems: list[FieldError] = []
    if "schema" in parts:
        schema_path = f"{path}.validation" if path == "spec" else f"{path}.schema"
        problems += validate_version_schema(version, f"{schema_path}.openAPIV3Schema", status)
    if "subresources" in parts:
        problems += validate_subresources(version, f"{path}.subresources")
    if "additionalPrinterColumns" in parts:
        problems += validate_printer_columns(version, f"{path}.additionalPrinterColumns")
    if "selectableFields" in parts:
        problems += validate_selectable_fields(version, f"{path}.selectableFields")
    return problems


def _validate_group(group: str) -> list[FieldError]:
    if not group:
        return [required_value("spec.group")]
    if error := dns_subdomain_error(group):
        return [invalid_value("spec.group", group, error)]
    if "." not in group:
        return [invalid_value("spec.group", group, "should be a domain with at least one dot")]
    return []


def _validate_versions(versions: Sequence[JsonObject]) -> list[FieldError]:
    problems: list[FieldError] = []
    formatted = [_internal_version(version) for version in versions]
    names = [version.get("name") for version in versions]
    if len(set(names)) != len(names):
        detail = "must contain unique version names"
        problems.append(invalid_value("spec.versions", formatted, detail))
    if sum(1 for version in versions if version.get("storage")) != 1:
        detail = "must have exactly one version marked as storage version"
        problems.append(invalid_value("spec.versions", formatted, detail))
    if versions and (error := dns_1035_label_error(versions[0].get("name", ""))):
        problems.append(invalid_value("spec.version", versions[0].get("name", ""), error))
    return problems


def _internal_version(version: JsonObject) -> JsonObject:
    """A version as Go prints Kubernetes' type, without the fields that versions may share."""
    return {
        "Name": version.get("name", ""),
        "Served": version.get("served", False),
        "Storage": version.get("storage", False),
        "Deprecated": version.get("deprecated", False),
        "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": None,
        "Subresources": None,
        "AdditionalPrinterColumns": None,
        "SelectableFields": None,
    }


def _validate_names(names: JsonObject) -> list[FieldError]:
    problems: list[FieldError] = []
    for name in ("plural", "singular"):
        value = names.get(name)
        if value and (error := dns_1035_label_error(value)):
            problems.append(invalid_value(f"spec.names.{name}", value, error))
    for name in ("kind", "listKind"):
        value = names.get(name)
        if value and (error := dns_1035_label_error(value.lower())):
            detail = f"may have mixed case, but should otherwise match: {error}"
            problems.append(invalid_value(f"spec.names.{name}", value, detail))
    problems += _validate_name_list(names, "shortNames")
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        detail = "kind and listKind may not be the same"
        problems.append(invalid_value("spec.names.listKind", names["listKind"], detail))
    return problems + _validate_name_list(names, "categories")


def _validate_name_list(names: JsonObject, field: str) -> list[FieldError]:
    return [
        invalid_value(f"spec.names.{field}[{index}]", value, error)
        for index, value in enumerate(nested_strings(names, field))
        if (error := dns_1035_label_error(value))
    ]


def _validate_conversion(conversion: JsonObject) -> list[FieldError]:
    strategy = conversion.get("strategy", "")
    path = "spec.conversion"
    if strategy == "Webhook":
        detail = "conversion webhooks are not served here; versions may differ in schema only"
        return [forbidden_value(f"{path}.strategy", detail)]
    problems = _validate_enum(f"{path}.strategy", strategy, ["None", "Webhook"])
    webhook = nested_object(conversion, "webhook")
    must_be_unset = "should not be set when strategy is not set to Webhook"
    if webhook.get("clientConfig") is not None:
        problems.append(forbidden_value(f"{path}.webhookClientConfig", must_be_unset))
    if webhook.get("conversionReviewVersions"):
        problems.append(forbidden_value(f"{path}.conversionReviewVersions", must_be_unset))
    return problems


def _validate_stored_versions(definition: JsonObject) -> list[FieldError]:
    path = "status.storedVersions"
    known = stored_versions(definition)
    versions = nested_objects(definition, "spec", "versions")
    if not known:
        return [invalid_value(path, None, "must have at least one stored version")]
    problems = [
        invalid_value(path, known, f"must have the storage version {version['name']}")
        for version in versions
        if version.get("storage") and version["name"] not in known
    ]
    names = {version.get("name") for version in versions}
    for index, name in enumerate(known):
        if name not in names:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must "
                "remain in spec.versions until a storage migration ensures no data remains "
                f"persisted in {name} and removes {name} from status.storedVersions"
            )
            problems.append(invalid_value(f"{path}[{index}]", name, detail))
    return problems


def _validate_enum(path: str, value: str, allowed: list[str]) -> list[FieldError]:
    if not value:
        return [required_value(path)]
    return [] if value in allowed else [not_supported_value(path, value, allowed)]


def _validate_immutable(new: JsonObject, old: JsonObject, *names: str) -> list[FieldError]:
    after = nested_value(new, "spec", *names)
    if after == nested_value(old, "spec", *names):
        return []
    return [invalid_value(".".join(("spec", *names)), after or "", _IMMUTABLE)]
