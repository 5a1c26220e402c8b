"""What Kubernetes asks of a CustomResourceDefinition, in its order and its words.

Settings that all versions share are reported as Kubernetes does, as if they were written once
for all of them (`spec.validation.…` rather than `spec.versions[0].schema.…`).
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from kilonova.api.json import JsonObject
from kilonova.local.customresources.acceptance import is_established, stored_versions
from kilonova.local.customresources.version import (
    MANY_RULES,
    column_problems,
    deprecation_problems,
    has_status,
    rules_to_compile,
    schema_problems,
    selectable_problems,
    subresource_problems,
)
from kilonova.local.customresources.vouched import digest
from kilonova.local.errors import Problem, forbidden_field, invalid_value, not_supported, required
from kilonova.local.kinds.walk import at, objects, part, strings
from kilonova.local.names import dns_1035_label, dns_subdomain

_APPROVAL = "api-approved.kubernetes.io"
_APPROVAL_RULES = "see https://github.com/kubernetes/enhancements/pull/1111"
_IMMUTABLE = "field is immutable"


def definition_problems(definition: JsonObject) -> list[Problem]:
    """What is wrong with a definition, new or changed; its metadata is checked elsewhere."""
    spec: JsonObject = definition["spec"]
    slow = judgement_is_slow(definition)
    problems = list(_remembered_problems(spec)) if slow else _spec_problems(spec)
    problems += _stored_problems(definition)
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        problems.append(invalid_value("spec.preserveUnknownFields", True, detail))
    return problems


def judgement_is_slow(definition: JsonObject) -> bool:
    """Whether `definition_problems` takes long, unless it was asked the same a moment ago."""
    versions = objects(definition, "spec", "versions")
    return sum(map(rules_to_compile, versions)) >= MANY_RULES


_REMEMBERED = 64
_remembered: dict[bytes, list[Problem]] = {}
"""What was found wrong with specs of many rules, by content: more than are ever written at once,
between the thread that compiles them and the write that asks again."""


def _remembered_problems(spec: JsonObject) -> list[Problem]:
    key = digest(spec)
    found = _remembered.get(key)
    if found is None:
        found = _spec_problems(spec)
        while len(_remembered) >= _REMEMBERED:
            _remembered.pop(next(iter(_remembered)), None)
        _remembered[key] = found
    return found


def name_problems(definition: JsonObject) -> list[Problem]:
    """A new definition must be named after what it defines."""
    spec = definition["spec"]
    name = definition["metadata"].get("name", "")
    problems: list[Problem] = []
    if name != f"{part(spec, 'names').get('plural', '')}.{spec.get('group', '')}":
        detail = 'must be spec.names.plural+"."+spec.group'
        problems.append(invalid_value("metadata.name", name, detail))
    return problems


def change_problems(new: JsonObject, old: JsonObject) -> list[Problem]:
    """What of a definition cannot be changed: what its instances are stored by."""
    problems: list[Problem] = []
    if is_established(old):
        problems += _immutable(new, old, "scope")
        problems += _immutable(new, old, "names", "kind")
    problems += _immutable(new, old, "group")
    problems += _immutable(new, old, "names", "plural")
    if _approval(new)[0] != _approval(old)[0]:
        problems += approval_problems(new)
    return problems


def approval_problems(definition: JsonObject) -> list[Problem]:
    """Groups of the Kubernetes project need the project's word."""
    group: str = definition["spec"].get("group", "")
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return []
    state, detail = _approval(definition)
    path = f"metadata.annotations[{_APPROVAL}]"
    if state == "missing":
        return [required(path, detail)]
    if state == "invalid":
        return [invalid_value(path, definition["metadata"]["annotations"][_APPROVAL], detail)]
    return []


def _approval(definition: JsonObject) -> tuple[str, str]:
    annotation: str = part(definition, "metadata", "annotations").get(_APPROVAL, "")
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


def _spec_problems(spec: JsonObject) -> list[Problem]:
    versions = objects(spec, "versions")
    problems = _group_problems(spec.get("group", ""))
    problems += _one_of("spec.scope", spec.get("scope", ""), ["Cluster", "Namespaced"])
    for index, version in enumerate(versions):
        if not at(version, "schema", "openAPIV3Schema"):
            problems.append(required(f"spec.versions[{index}].schema.openAPIV3Schema"))
    shared = {part for part in _SHARED if _is_shared(versions, part)}
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        if trouble := dns_1035_label(version.get("name", "")):
            problems.append(invalid_value(f"{path}.name", version.get("name", ""), trouble))
        problems += deprecation_problems(version, path)
        own = [part for part in _SHARED if part not in shared]
        problems += _part_problems(version, path, own, has_status(version))
    problems += _versions_problems(versions)
    names = part(spec, "names")
    for name in ("plural", "singular", "kind", "listKind"):
        if not names.get(name):
            problems.append(required(f"spec.names.{name}"))
    problems += _names_problems(names)
    if versions:
        common = [part for part in _SHARED if part in shared]
        any_status = any(has_status(version) for version in versions)
        problems += _part_problems(versions[0], "spec", common, any_status)
    return problems + _conversion_problems(part(spec, "conversion"))


_SHARED = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
"""Settings of a version that may be the same in all of them."""


def _is_shared(versions: Sequence[JsonObject], part: str) -> bool:
    return all(version.get(part) == versions[0].get(part) for version in versions)


def _part_problems(
    version: JsonObject, path: str, parts: Sequence[str], status: bool
) -> list[Problem]:
    """Problems of some of a version's settings; `path` is `spec` for those that all share."""
    problems: list[Problem] = []
    if "schema" in parts:
        place = f"{path}.validation" if path == "spec" else f"{path}.schema"
        problems += schema_problems(version, f"{place}.openAPIV3Schema", status)
    if "subresources" in parts:
        problems += subresource_problems(version, f"{path}.subresources")
    if "additionalPrinterColumns" in parts:
        problems += column_problems(version, f"{path}.additionalPrinterColumns")
    if "selectableFields" in parts:
        problems += selectable_problems(version, f"{path}.selectableFields")
    return problems


def _group_problems(group: str) -> list[Problem]:
    if not group:
        return [required("spec.group")]
    if trouble := dns_subdomain(group):
        return [invalid_value("spec.group", group, trouble)]
    if "." not in group:
        return [invalid_value("spec.group", group, "should be a domain with at least one dot")]
    return []


def _versions_problems(versions: Sequence[JsonObject]) -> list[Problem]:
    problems: list[Problem] = []
    shown = [_internal(version) for version in versions]
    names = [version.get("name") for version in versions]
    if len(set(names)) != len(names):
        detail = "must contain unique version names"
        problems.append(invalid_value("spec.versions", shown, detail))
    if sum(1 for version in versions if version.get("storage")) != 1:
        detail = "must have exactly one version marked as storage version"
        problems.append(invalid_value("spec.versions", shown, detail))
    if versions and (trouble := dns_1035_label(versions[0].get("name", ""))):
        problems.append(invalid_value("spec.version", versions[0].get("name", ""), trouble))
    return problems


def _internal(version: JsonObject) -> JsonObject:
    """A version as Kubernetes prints its internal type; what versions may share is left out."""
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


def _names_problems(names: JsonObject) -> list[Problem]:
    problems: list[Problem] = []
    for name in ("plural", "singular"):
        value = names.get(name)
        if value and (trouble := dns_1035_label(value)):
            problems.append(invalid_value(f"spec.names.{name}", value, trouble))
    for name in ("kind", "listKind"):
        value = names.get(name)
        if value and (trouble := dns_1035_label(value.lower())):
            detail = f"may have mixed case, but should otherwise match: {trouble}"
            problems.append(invalid_value(f"spec.names.{name}", value, detail))
    problems += _label_problems(names, "shortNames")
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        detail = "kind and listKind may not be the same"
        problems.append(invalid_value("spec.names.listKind", names["listKind"], detail))
    return problems + _label_problems(names, "categories")


def _label_problems(names: JsonObject, field: str) -> list[Problem]:
    return [
        invalid_value(f"spec.names.{field}[{index}]", value, trouble)
        for index, value in enumerate(strings(names, field))
        if (trouble := dns_1035_label(value))
    ]


def _conversion_problems(conversion: JsonObject) -> list[Problem]:
    strategy = conversion.get("strategy", "")
    path = "spec.conversion"
    if strategy == "Webhook":
        detail = "conversion webhooks are not served here; versions may differ in schema only"
        return [forbidden_field(f"{path}.strategy", detail)]
    problems = _one_of(f"{path}.strategy", strategy, ["None", "Webhook"])
    webhook = part(conversion, "webhook")
    unwanted = "should not be set when strategy is not set to Webhook"
    if webhook.get("clientConfig") is not None:
        problems.append(forbidden_field(f"{path}.webhookClientConfig", unwanted))
    if webhook.get("conversionReviewVersions"):
        problems.append(forbidden_field(f"{path}.conversionReviewVersions", unwanted))
    return problems


def _stored_problems(definition: JsonObject) -> list[Problem]:
    path = "status.storedVersions"
    known = stored_versions(definition)
    versions = objects(definition, "spec", "versions")
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


def _one_of(path: str, value: str, allowed: list[str]) -> list[Problem]:
    if not value:
        return [required(path)]
    return [] if value in allowed else [not_supported(path, value, allowed)]


def _immutable(new: JsonObject, old: JsonObject, *names: str) -> list[Problem]:
    after = at(new, "spec", *names)
    if after == at(old, "spec", *names):
        return []
    return [invalid_value(".".join(("spec", *names)), after or "", _IMMUTABLE)]
