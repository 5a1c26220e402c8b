"""Names in dynamic resource allocation: drivers, pools, devices, attributes; and lists of them."""

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

from kilonova.local.errors import Problem, duplicate, invalid_value, required, too_long
from kilonova.local.names import dns_label, dns_subdomain, label_value, qualified_name

T = TypeVar("T")
Check = Callable[[T, str], Iterator[Problem]]
"""What is wrong with a value at a path."""

LONGEST_DRIVER = 63
LONGEST_IDENTIFIER = 32
LONGEST_QUALIFIED = LONGEST_DRIVER + 1 + LONGEST_IDENTIFIER
_LONGEST_POOL = 253
_KEY_SYNTAX = qualified_name("-") or ""
"""What Kubernetes says of an empty key beside that it is empty."""

_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_is_identifier = re.compile(_IDENTIFIER).fullmatch
_is_uuid = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE).fullmatch


def short_name(name: str, path: str) -> Iterator[Problem]:
    """The name of a device, a request, a set of counters: a DNS label."""
    if trouble := dns_label(name):
        yield invalid_value(path, name, trouble)


def long_name(name: str, path: str) -> Iterator[Problem]:
    """The name of a node or of a class: a DNS subdomain."""
    if trouble := dns_subdomain(name):
        yield invalid_value(path, name, trouble)


def class_name(name: str, path: str) -> Iterator[Problem]:
    """The name of a DeviceClass, which must be there."""
    if name:
        yield from long_name(name, path)
    else:
        yield required(path)


def driver_name(name: str, path: str) -> Iterator[Problem]:
    """A driver: a DNS subdomain in letters of any case."""
    if not name:
        yield required(path)
        return
    if len(name) > LONGEST_DRIVER:
        yield too_long(path, LONGEST_DRIVER)
    if trouble := dns_subdomain(name.lower()):
        yield invalid_value(path, name, trouble)


def pool_name(name: str, path: str) -> Iterator[Problem]:
    """A pool: DNS subdomains between slashes."""
    if not name:
        yield required(path)
        return
    if len(name) > _LONGEST_POOL:
        yield too_long(path, _LONGEST_POOL)
    for part in name.split("/"):
        yield from long_name(part, path)


def label_key(name: str, path: str) -> Iterator[Problem]:
    """The key of a taint, the type of a condition."""
    if trouble := qualified_name(name):
        yield invalid_value(path, name, trouble)
    if not name:
        yield invalid_value(path, name, _KEY_SYNTAX)


def label_text(value: str, path: str) -> Iterator[Problem]:
    """The value of a taint."""
    if trouble := label_value(value):
        yield invalid_value(path, value, trouble)


def attribute_name(name: str, path: str) -> Iterator[Problem]:
    """An attribute or a capacity: an identifier, maybe after a domain and a slash."""
    domain, slash, identifier = name.partition("/")
    if "/" in identifier:
        return  # Kubernetes lets these pass
    if not slash:
        yield from _identifier(name, path)
        return
    if domain:
        yield from driver_name(domain, path)
    else:
        yield invalid_value(path, "", "the domain must not be empty")
    if identifier:
        yield from _identifier(identifier, path)
    else:
        yield invalid_value(path, "", "the name must not be empty")


def full_attribute_name(name: str, path: str) -> Iterator[Problem]:
    """An attribute with its domain."""
    yield from attribute_name(name, path)
    if "/" not in name:
        detail = "a fully qualified name must be a domain and a name separated by a slash"
        yield invalid_value(path, name, detail)


def _identifier(name: str, path: str) -> Iterator[Problem]:
    if len(name) > LONGEST_IDENTIFIER:
        yield too_long(path, LONGEST_IDENTIFIER)
    if not _is_identifier(name):
        detail = (
            "a valid C identifier must start with alphabetic character or '_', followed by a "
            "string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
            f"'MyName', regex used for validation is '{_IDENTIFIER}')"
        )
        yield invalid_value(path, name, detail)


def share_id(value: str, path: str) -> Iterator[Problem]:
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


def at_most(count: int, most: int, path: str) -> Iterator[Problem]:
    """A list may not be longer than that."""
    if count > most:
        detail = f"Too many: {count}: must have at most {most} items"
        yield Problem(path, "FieldValueTooMany", detail)


def each(values: Sequence[T], most: int, check: Check[T], path: str) -> Iterator[Problem]:
    """Every item; but of a list that is too long only that it is."""
    if len(values) > most:
        yield from at_most(len(values), most, path)
        return
    for index, value in enumerate(values):
        yield from check(value, f"{path}[{index}]")


def each_once(
    values: Sequence[T],
    most: int,
    check: Check[T],
    path: str,
    key: Callable[[T], Hashable],
    shown: Callable[[T], object] | None = None,
) -> Iterator[Problem]:
    """Every item, none of them twice; `shown` is what a message says of a key."""
    yield from each(values, most, check, path)
    if len(values) > most:
        return
    known: set[Hashable] = set()
    for index, value in enumerate(values):
        if key(value) in known:
            yield duplicate(f"{path}[{index}]", (shown or key)(value))
        known.add(key(value))
