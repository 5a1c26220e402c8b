"""Syntax of names, labels and variables: each check returns why a text is invalid, or None."""

import re

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(rf"{_LABEL}(\.{_LABEL})*").fullmatch
_is_qualified = re.compile(_QUALIFIED).fullmatch
_is_variable = re.compile("[ -<>-~]+").fullmatch


def check_dns_label(name: str) -> str | None:
    """`my-name`: a DNS label, as in host names and Service names."""
    if len(name) > 63:
        return "must be no more than 63 characters"
    if _is_label(name):
        return None
    return (
        "must consist of lower case letters, digits or '-', and start and end with a letter or "
        f"digit (regex used for validation is '{_LABEL}')"
    )


def check_dns_subdomain(name: str) -> str | None:
    """`my.name`: a DNS subdomain, as in most object names."""
    if len(name) > 253:
        return "must be no more than 253 characters"
    if _is_subdomain(name):
        return None
    return (
        "must consist of lower case letters, digits, '-' or '.', and start and end with a letter "
        "or digit"
    )


def check_label_key(key: str) -> str | None:
    """`name` or `example.com/name`: the key of a label or an annotation."""
    prefix, slash, name = key.rpartition("/")
    if slash and (problem := check_dns_subdomain(prefix)):
        return f"prefix part {problem}"
    if not name or len(name) > 63 or not _is_qualified(name):
        return (
            "name part must be 1 to 63 letters, digits, '-', '_' or '.', and start and end with a "
            "letter or digit"
        )
    return None


def check_label_value(value: str) -> str | None:
    """The value of a label; may be empty."""
    if not value or (len(value) <= 63 and _is_qualified(value)):
        return None
    return (
        "must be empty, or up to 63 letters, digits, '-', '_' or '.' that start and end with a "
        "letter or digit"
    )


def check_variable_name(name: str) -> str | None:
    """The name of an environment variable."""
    if _is_variable(name):
        return None
    return "must be printable ASCII characters other than '=', at least one"
