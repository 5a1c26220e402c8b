"""What may be a name: the syntaxes of Kubernetes, with the messages that refuse the rest.

Each rule takes the text and answers why it will not do, or None.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.errors import (
    Problem,
    forbidden_field,
    invalid_value,
    required,
    too_long,
)

Rule = Callable[[str], str | None]

ANNOTATIONS_LIMIT = 256 * 1024
"""Bytes of all keys and values of an object's annotations together."""

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

_LONGEST_KEY = 253 + len("/") + 63

_FOREGROUND = "foregroundDeletion"
_ORPHAN = "orphan"


def dns_label(name: str) -> str | None:
    """A DNS-1123 label: `my-name`."""
    if len(name) > 63:
        return "must be no more than 63 characters"
    if _is_label(name):
        return None
    if _is_subdomain(name):
        return "must not contain dots"
    return _syntax(
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character",
        _LABEL,
        "my-name",
        "123-abc",
    )


def dns_subdomain(name: str) -> str | None:
    """A DNS-1123 subdomain: `example.com`."""
    if len(name) > 253:
        return "must be no more than 253 characters"
    if _is_subdomain(name):
        return None
    return _syntax(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
        "'-' or '.', and must start and end with an alphanumeric character",
        _SUBDOMAIN,
        "example.com",
    )


def dns_1035_label(name: str) -> str | None:
    """A DNS-1035 label: like a DNS-1123 label, but starting with a letter."""
    if len(name) > 63:
        return "must be no more than 63 characters"
    if _is_label_1035(name):
        return None
    return _syntax(
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with "
        "an alphabetic character, and end with an alphanumeric character",
        _LABEL_1035,
        "my-name",
        "abc-123",
    )


def path_segment(name: str) -> str | None:
    """Anything that can stand between two slashes of a path (RBAC names)."""
    if name in (".", ".."):
        return f"may not be '{name}'"
    for character in "/%":
        if character in name:
            return f"may not contain '{character}'"
    return None


def qualified_name(name: str) -> str | None:
    """A label key, a finalizer: `MyName` or `example.com/MyName`."""
    # Keys recur from object to object; very long ones are wrong, and not worth the memory.
    judge = _remembered_trouble if len(name) <= _LONGEST_KEY else _qualified_trouble
    return judge(name)


def _qualified_trouble(name: str) -> str | None:
    shape = (
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
        "an alphanumeric character"
    )
    examples = ("MyName", "my.name", "123-abc")
    prefix, slash, last = name.rpartition("/")
    if "/" in prefix:
        return (
            f"a valid label key {_syntax(shape, _QUALIFIED, *examples)} with an optional DNS "
            "subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )
    if slash:
        if not prefix:
            return "prefix part must be non-empty"
        if trouble := dns_subdomain(prefix):
            return f"prefix part {trouble}".replace("characters", "bytes", len(prefix) > 253)
    if not last:
        return "name part must be non-empty"
    if len(last) > 63:
        return "name part must be no more than 63 bytes"
    if not _is_qualified(last):
        return f"name part {_syntax(shape, _QUALIFIED, *examples)}"
    return None


_remembered_trouble = lru_cache(maxsize=4096)(_qualified_trouble)


def label_value(value: str) -> str | None:
    """The value of a label; may be empty."""
    if len(value) > 63:
        return "must be no more than 63 bytes"
    if _is_label_value(value):
        return None
    return _syntax(
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' "
        "or '.', and must start and end with an alphanumeric character",
        _LABEL_VALUE,
        "MyValue",
        "my_value",
        "12345",
    )


def config_key(key: str) -> str | None:
    """A key in the data of a ConfigMap or Secret."""
    if len(key) > 253:
        return "must be no more than 253 characters"
    if not _is_config_key(key):
        return _syntax(
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


def port_name(name: str) -> str | None:
    """The name of a port of a container, as IANA wants service names."""
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


def env_name(name: str) -> str | None:
    """The name of an environment variable."""
    if not name:
        return "environment variable name must be non-empty"
    if _is_printable_but_equals(name):
        return None
    return (
        "a valid environment variable name must consist only of printable ASCII characters "
        "other than '='"
    )


def label_problems(labels: JsonObject | None, path: str) -> list[Problem]:
    """What is wrong with keys and values of a set of labels."""
    problems: list[Problem] = []
    for key, value in (labels or {}).items():
        if trouble := qualified_name(key):
            problems.append(invalid_value(path, key, trouble))
        if trouble := label_value(value):
            problems.append(invalid_value(path, value, trouble))
    return problems


def annotation_problems(annotations: JsonObject | None, path: str) -> list[Problem]:
    """What is wrong with a set of annotations: keys, and the size of all together."""
    problems: list[Problem] = []
    size = 0
    for key, value in (annotations or {}).items():
        size += len(key.encode()) + len(value.encode())
        if trouble := qualified_name(key.lower()):
            problems.append(invalid_value(path, key, trouble))
    if size > ANNOTATIONS_LIMIT:
        problems.append(too_long(path, ANNOTATIONS_LIMIT))
    return problems


def object_meta_problems(meta: JsonObject, namespaced: bool, valid_name: Rule) -> list[Problem]:
    """What is wrong with the metadata of an object; a name has been generated before."""
    problems: list[Problem] = []
    if prefix := meta.get("generateName"):
        # A name follows the prefix, so that it may end in a dash here.
        probe = prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix
        if trouble := valid_name(probe):
            problems.append(invalid_value("metadata.generateName", prefix, trouble))
    if not (name := meta.get("name")):
        problems.append(required("metadata.name", "name or generateName is required"))
    elif trouble := valid_name(name):
        problems.append(invalid_value("metadata.name", name, trouble))
    problems += _namespace_problems(meta.get("namespace"), namespaced)
    problems += label_problems(meta.get("labels"), "metadata.labels")
    problems += annotation_problems(meta.get("annotations"), "metadata.annotations")
    problems += _owner_problems(meta.get("ownerReferences") or [])
    problems += _finalizer_problems(meta.get("finalizers") or [])
    return problems


def _namespace_problems(namespace: str | None, namespaced: bool) -> list[Problem]:
    if not namespaced:
        if namespace:
            return [forbidden_field("metadata.namespace", "not allowed on this type")]
        return []
    if not namespace:
        return [required("metadata.namespace")]
    if trouble := dns_label(namespace):
        return [invalid_value("metadata.namespace", namespace, trouble)]
    return []


def _owner_problems(owners: list[JsonObject]) -> list[Problem]:
    path = "metadata.ownerReferences"
    problems: list[Problem] = []
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


def _finalizer_problems(finalizers: list[Any]) -> list[Problem]:
    path = "metadata.finalizers"
    problems: list[Problem] = []
    for finalizer in finalizers:
        if trouble := qualified_name(finalizer):
            problems.append(invalid_value(path, finalizer, trouble))
    if _FOREGROUND in finalizers and _ORPHAN in finalizers:
        detail = f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"
        problems.append(invalid_value(path, finalizers, detail))
    return problems


def _syntax(message: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"
