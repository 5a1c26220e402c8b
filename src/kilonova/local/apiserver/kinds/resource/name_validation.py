"""Validation of names in resource.k8s.io (drivers, pools, devices, attributes) and of lists."""

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

from kilonova.local.apimachinery.errors import (
    FieldError,
    duplicate_value,
    invalid_value,
    required_value,
    too_long_value,
)
from kilonova.local.apimachinery.names import (
    dns_label_error,
    dns_subdomain_error,
    label_value_error,
    qualified_name_error,
)

T = TypeVar("T")
ItemValidator = Callable[[T, str], Iterator[FieldError]]
"""Validates a value at a path."""

MAX_DRIVER_NAME_LENGTH = 63
MAX_IDENTIFIER_LENGTH = 32
MAX_QUALIFIED_NAME_LENGTH = MAX_DRIVER_NAME_LENGTH + 1 + MAX_IDENTIFIER_LENGTH
_MAX_POOL_NAME_LENGTH = 253
_KEY_SYNTAX = qualified_name_error("-") or ""
"""Kubernetes' second message for an empty key."""

_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_is_identifier = re.compile(_IDENTIFIER).fullmatch
_is_uuid = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE).fullmatch


def validate_dns_label(name: str, path: str) -> Iterator[FieldError]:
    """The name of a device, a request or a counter set: a DNS label."""
    if error := dns_label_error(name):
        yield invalid_value(path, name, error)


def validate_dns_subdomain(name: str, path: str) -> Iterator[FieldError]:
    """The name of a node or of a class: a DNS subdomain."""
    if error := dns_subdomain_error(name):
        yield invalid_value(path, name, error)


def validate_class_name(name: str, path: str) -> Iterator[FieldError]:
    """The name of a DeviceClass, which is required."""
    if name:
        yield from validate_dns_subdomain(name, path)
    else:
        yield required_value(path)


def validate_driver_name(name: str, path: str) -> Iterator[FieldError]:
    """A driver: a DNS subdomain in which upper case is allowed."""
    if not name:
        yield required_value(path)
        return
    if len(name) > MAX_DRIVER_NAME_LENGTH:
        yield too_long_value(path, MAX_DRIVER_NAME_LENGTH)
    if error := dns_subdomain_error(name.lower()):
        yield invalid_value(path, name, error)


def validate_pool_name(name: str, path: str) -> Iterator[FieldError]:
    """A pool: DNS subdomains separated by slashes."""
    if not name:
        yield required_value(path)
        return
    if len(name) > _MAX_POOL_NAME_LENGTH:
        yield too_long_value(path, _MAX_POOL_NAME_LENGTH)
    for part in name.split("/"):
        yield from validate_dns_subdomain(part, path)


def validate_label_key(name: str, path: str) -> Iterator[FieldError]:
    """The key of a taint or the type of a condition."""
    if error := qualified_name_error(name):
        yield invalid_value(path, name, error)
    if not name:
        yield invalid_value(path, name, _KEY_SYNTAX)


def validate_label_value(value: str, path: str) -> Iterator[FieldError]:
    """The value of a taint."""
    if error := label_value_error(value):
        yield invalid_value(path, value, error)


def validate_attribute_name(name: str, path: str) -> Iterator[FieldError]:
    """An attribute or a capacity: an identifier, with an optional domain and a slash."""
    domain, slash, identifier = name.partition("/")
    if "/" in identifier:
        return  # Kubernetes accepts these
    if not slash:
        yield from _validate_identifier(name, path)
        return
    if domain:
        yield from validate_driver_name(domain, path)
    else:
        yield invalid_value(path, "", "the domain must not be empty")
    if identifier:
        yield from _validate_identifier(identifier, path)
    else:
        yield invalid_value(path, "", "the name must not be empty")


def validate_qualified_attribute_name(name: str, path: str) -> Iterator[FieldError]:
    """An attribute with its domain."""
    yield from validate_attribute_name(name, path)
    if "/" not in name:
        detail = "a fully qualified name must be a domain and a name separated by a slash"
        yield invalid_value(path, name, detail)


def _validate_identifier(name: str, path: str) -> Iterator[FieldError]:
    if len(name) > MAX_IDENTIFIER_LENGTH:
        yield too_long_value(path, MAX_IDENTIFIER_LENGTH)
    if not _is_identifier(name):
        detail = (
            "a valid C identifier must start with alphabetic character or '_', followed by a "
            "string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
            f"'MyName', regex used for validation is '{_IDENTIFIER}')"
        )
        yield invalid_value(path, name, detail)


def validate_share_id(value: str, path: str) -> Iterator[FieldError]:
    """A share of a device: a UUID."""
    if len(value) != 36:
        detail = f"error validating uid: invalid UUID length: {len(value)}"
        yield invalid_value(path, value, detail)
    elif not _is_uuid(value):
        yield invalid_value(path, value, "error validating uid: invalid UUID format")
    elif value != value.lower():
        detail = (
            "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` "
            "with lowercase hexadecimal characters"
        )
        yield invalid_value(path, value, detail)


def validate_max_items(count: int, max_items: int, path: str) -> Iterator[FieldError]:
    """The maximum length of a list."""
    if count > max_items:
        detail = f"Too many: {count}: must have at most {max_items} items"
        yield FieldError(path, "FieldValueTooMany", detail)


def validate_items(
    values: Sequence[T], max_items: int, validate: ItemValidator[T], path: str
) -> Iterator[FieldError]:
    """Validate every item; for a list that is too long, report only that."""
    if len(values) > max_items:
        yield from validate_max_items(len(values), max_items, path)
        return
    for index, value in enumerate(values):
        yield from validate(value, f"{path}[{index}]")


def validate_unique_items(
    values: Sequence[T],
    max_items: int,
    validate: ItemValidator[T],
    path: str,
    key: Callable[[T], Hashable],
    format_key: Callable[[T], object] | None = None,
) -> Iterator[FieldError]:
    """Validate every item, and that items are unique; `format_key` formats a key for messages."""
    yield from validate_items(values, max_items, validate, path)
    if len(values) > max_items:
        return
    known: set[Hashable] = set()
    for index, value in enumerate(values):
        if key(value) in known:
            yield duplicate_value(f"{path}[{index}]", (format_key or key)(value))
        known.add(key(value))
