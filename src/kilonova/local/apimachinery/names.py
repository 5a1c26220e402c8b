"""Validation of names, labels, annotations and object metadata, with Kubernetes' messages.

Each `*_error` function takes a string and returns the message for an invalid one, or None.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    FieldError,
    forbidden_value,
    invalid_value,
    required_value,
    too_long_value,
)

NameValidator = Callable[[str], str | None]

ANNOTATIONS_LIMIT = 256 * 1024
"""The limit for the bytes of all annotation keys and values of an object."""

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_QUALIFIED})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_label_1035 = re.compile(_LABEL_1035).fullmatch
_is_qualified = re.compile(_QUALIFIED).fullmatch
_is_label_value = re.compile(_LABEL_VALUE).fullmatch
_is_config_key = re.compile(_CONFIG_KEY).fullmatch
_is_port = re.compile("[-a-z0-9]+").fullmatch
_has_letter = re.compile("[a-z]").search
_is_printable_but_equals = re.compile("[ -<>-~]+").fullmatch

_MAX_KEY_LENGTH = 253 + len("/") + 63

_FOREGROUND = "foregroundDeletion"
_ORPHAN = "orphan"


def dns_label_error(name: str) -> str | None:
    """A DNS-1123 label: `my-name`."""
    if len(name) > 63:
        return "must be no more than 63 characters"
    if _is_label(name):
        return None
    if _is_subdomain(name):
        return "must not contain dots"
    return _regex_error(
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character",
        _LABEL,
        "my-name",
        "123-abc",
    )


def dns_subdomain_error(name: str) -> str | None:
    """A DNS-1123 subdomain: `example.com`."""
    if len(name) > 253:
        return "must be no more than 253 characters"
    if _is_subdomain(name):
        return None
    return _regex_error(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
        "'-' or '.', and must start and end with an alphanumeric character",
        _SUBDOMAIN,
        "example.com",
    )


def dns_1035_label_error(name: str) -> str | None:
    """A DNS-1035 label: like a DNS-1123 label, but starting with a letter."""
    if len(name) > 63:
        return "must be no more than 63 characters"
    if _is_label_1035(name):
        return None
    return _regex_error(
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with "
        "an alphabetic character, and end with an alphanumeric character",
        _LABEL_1035,
        "my-name",
        "abc-123",
    )


def path_segment_error(name: str) -> str | None:
    """A segment of a URL path (the names of RBAC objects)."""
    if name in (".", ".."):
        return f"may not be '{name}'"
    for character in "/%":
        if character in name:
            return f"may not contain '{character}'"
    return None


def qualified_name_error(name: str) -> str | None:
    """A label key or a finalizer: `MyName` or `example.com/MyName`."""
    # Keys recur from object to object; overlong ones are invalid and not worth caching.
    check = _cached_qualified_name_error if len(name) <= _MAX_KEY_LENGTH else _qualified_name_error
    return check(name)


def _qualified_name_error(name: str) -> str | None:
    shape = (
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
        "an alphanumeric character"
    )
    examples = ("MyName", "my.name", "123-abc")
    prefix, slash, last = name.rpartition("/")
    if "/" in prefix:
        return (
            f"a valid label key {_regex_error(shape, _QUALIFIED, *examples)} with an optional DNS "
            "subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )
    if slash:
        if not prefix:
            return "prefix part must be non-empty"
        if error := dns_subdomain_error(prefix):
            return f"prefix part {error}".replace("characters", "bytes", len(prefix) > 253)
    if not last:
        return "name part must be non-empty"
    if len(last) > 63:
        return "name part must be no more than 63 bytes"
    if not _is_qualified(last):
        return f"name part {_regex_error(shape, _QUALIFIED, *examples)}"
    return None


_cached_qualified_name_error = lru_cache(maxsize=4096)(_qualified_name_error)


def label_value_error(value: str) -> str | None:
    """A label value; may be empty."""
    if len(value) > 63:
        return "must be no more than 63 bytes"
    if _is_label_value(value):
        return None
    return _regex_error(
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' "
        "or '.', and must start and end with an alphanumeric character",
        _LABEL_VALUE,
        "MyValue",
        "my_value",
        "12345",
    )


def config_key_error(key: str) -> str | None:
    """A key in the data of a ConfigMap or a Secret."""
    if len(key) > 253:
        return "must be no more than 253 characters"
    if not _is_config_key(key):
        return _regex_error(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            _CONFIG_KEY,
            "key.name",
            "KEY_NAME",
            "key-name",
        )
    if key in (".", ".."):
        return f"must not be '{key}'"
    if key.startswith(".."):
        return "must not start with '..'"
    return None


def port_name_error(name: str) -> str | None:
    """The name of a container port: an IANA service name."""
    if len(name) > 15:
        return "must be no more than 15 characters"
    if not _is_port(name):
        return "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not _has_letter(name):
        return "must contain at least one letter (a-z)"
    if "--" in name:
        return "must not contain consecutive hyphens"
    if name.startswith("-") or name.endswith("-"):
        return "must not begin or end with a hyphen"
    return None


def env_name_error(name: str) -> str | None:
    """The name of an environment variable."""
    if not name:
        return "environment variable name must be non-empty"
    if _is_printable_but_equals(name):
        return None
    return (
        "a valid environment variable name must consist only of printable ASCII characters "
        "other than '='"
    )


def validate_labels(labels: JsonObject | None, path: str) -> list[FieldError]:
    """Validate the keys and values of a set of labels."""
    problems: list[FieldError] = []
    for key, value in (labels or {}).items():
        if error := qualified_name_error(key):
            problems.append(invalid_value(path, key, error))
        if error := label_value_error(value):
            problems.append(invalid_value(path, value, error))
    return problems


def validate_annotations(annotations: JsonObject | None, path: str) -> list[FieldError]:
    """Validate a set of annotations: keys, and the total size."""
    problems: list[FieldError] = []
    size = 0
    for key, value in (annotations or {}).items():
        size += len(key.encode()) + len(value.encode())
        if error := qualified_name_error(key.lower()):
            problems.append(invalid_value(path, key, error))
    if size > ANNOTATIONS_LIMIT:
        problems.append(too_long_value(path, ANNOTATIONS_LIMIT))
    return problems


def validate_object_meta(
    meta: JsonObject, namespaced: bool, valid_name: NameValidator
) -> list[FieldError]:
    """Validate the metadata of an object, after `generateName` has been resolved."""
    problems: list[FieldError] = []
    if prefix := meta.get("generateName"):
        # A suffix follows the prefix, so the prefix itself may end in a dash.
        probe = prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix
        if error := valid_name(probe):
            problems.append(invalid_value("metadata.generateName", prefix, error))
    if not (name := meta.get("name")):
        problems.append(required_value("metadata.name", "name or generateName is required"))
    elif error := valid_name(name):
        problems.append(invalid_value("metadata.name", name, error))
    problems += _validate_namespace(meta.get("namespace"), namespaced)
    problems += validate_labels(meta.get("labels"), "metadata.labels")
    problems += validate_annotations(meta.get("annotations"), "metadata.annotations")
    problems += _validate_owner_references(meta.get("ownerReferences") or [])
    problems += _validate_finalizers(meta.get("finalizers") or [])
    return problems


def _validate_namespace(namespace: str | None, namespaced: bool) -> list[FieldError]:
    if not namespaced:
        if namespace:
            return [forbidden_value("metadata.namespace", "not allowed on this type")]
        return []
    if not namespace:
        return [required_value("metadata.namespace")]
    if error := dns_label_error(namespace):
        return [invalid_value("metadata.namespace", namespace, error)]
    return []


def _validate_owner_references(owners: list[JsonObject]) -> list[FieldError]:
    path = "metadata.ownerReferences"
    problems: list[FieldError] = []
    controller = ""
    for owner in owners:
        if not str(owner.get("apiVersion", "")).rpartition("/")[2]:
            problems.append(
                invalid_value(
                    f"{path}.apiVersion", owner.get("apiVersion", ""), "version must not be empty"
                )
            )
        for field in ("kind", "name", "uid"):
            if not owner.get(field):
                problems.append(invalid_value(f"{path}.{field}", "", "must not be empty"))
        if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
            problems.append(
                invalid_value(path, owner, "/v1, Kind=Event is disallowed from being an owner")
            )
        if owner.get("controller"):
            named = f"{owner.get('kind')}/{owner.get('name')}"
            if controller:
                problems.append(
                    invalid_value(
                        path,
                        owners,
                        "Only one reference can have Controller set to true. Found "
                        f'"true" in references for {controller} and {named}',
                    )
                )
            controller = controller or named
    return problems


def _validate_finalizers(finalizers: list[Any]) -> list[FieldError]:
    path = "metadata.finalizers"
    problems: list[FieldError] = []
    for finalizer in finalizers:
        if error := qualified_name_error(finalizer):
            problems.append(invalid_value(path, finalizer, error))
    if _FOREGROUND in finalizers and _ORPHAN in finalizers:
        detail = f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"
        problems.append(invalid_value(path, finalizers, detail))
    return problems


def _regex_error(message: str, pattern: str, *examples: str) -> str:
    formatted = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {formatted}regex used for validation is '{pattern}')"
