"""The string formats that are validated in custom kinds.

Names are compared without dashes, so that `date-time` and `datetime` are the same. As in
Kubernetes, unknown formats are accepted and ignored.
"""

import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from email.utils import parseaddr
from urllib.parse import urlsplit

Predicate = Callable[[str], bool]


def format_predicate(format: str) -> Predicate | None:
    """A predicate for the format, or None for a format that is not validated."""
    return _FORMATS.get(format.replace("-", ""))


def _regex_predicate(pattern: str) -> Predicate:
    match = re.compile(pattern, re.ASCII).fullmatch
    return lambda text: match(text) is not None


_HEX = "[0-9a-fA-F]"


def _uuid_predicate(version: str = f"{_HEX}{{4}}", variant: str = f"{_HEX}{{4}}") -> Predicate:
    return _regex_predicate(f"{_HEX}{{8}}-?{_HEX}{{4}}-?{version}-?{variant}-?{_HEX}{{12}}")


_RFC_VARIANT = f"[89abAB]{_HEX}{{3}}"

_is_clock = re.compile(
    r"(\d\d):(\d\d):(\d\d)(?:.\d+)?(?:z|[+-]\d\d:\d\d)", re.ASCII | re.DOTALL
).fullmatch
_is_host = re.compile(r"[^\W_](?:[\w-]{0,61}[^\W_])?(?:\.[^\W_](?:[\w-]{0,61}[^\W_])?)*").fullmatch
_is_go_duration = re.compile(
    r"[+-]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII
).fullmatch
_find_spans = re.compile(r"(\d+)\s*([A-Za-zµ]+)", re.ASCII).findall
_UNITS = {"ns", "us", "µs", "ms", "s", "sec", "m", "min", "h", "hr", "d", "w", "wk"}
_UNIT_STEMS = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")


def _is_date(text: str) -> bool:
    if len(text) != 10 or text[4] != "-" or text[7] != "-":
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    day, mark, rest = text.lower().partition("t")
    match = _is_clock(rest)
    if not mark or match is None or not _is_date(day):
        return False
    hours, minutes, seconds = match.groups()
    return hours <= "23" and minutes <= "59" and seconds <= "59"


def _is_duration(text: str) -> bool:
    if _is_go_duration(text):
        return True
    return any(
        unit.lower() in _UNITS or unit.lower().startswith(_UNIT_STEMS)
        for _, unit in _find_spans(text)
    )


def _is_hostname(text: str) -> bool:
    if len(text.encode()) > 255 or _is_host(text) is None or "_" in text:
        return False
    *_, last = labels = text.split(".")
    return len(labels) == 1 or (len(last) >= 2 and last.isalpha())


def _without_leading_zeros(address: str) -> str:
    # Accepted for existing objects: Go before 1.17 accepted it.
    if "." not in address:
        return address
    return re.sub(r"(?<![0-9a-fA-F])0+(?=[0-9])", "", address)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(_without_leading_zeros(text))
    except ValueError:
        return False
    return "%" not in text


def _is_cidr(text: str) -> bool:
    address, slash, length = text.partition("/")
    if not slash or not _is_address(address) or not re.fullmatch("[0-9]+", length):
        return False
    return int(length) <= (128 if ":" in address else 32)


def _is_uri(text: str) -> bool:
    """An absolute URI, or a path that starts with a slash."""
    if not text or any(character <= " " or character == "\x7f" for character in text):
        return False
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return text.startswith("/") or bool(parts.scheme)


def _is_email(text: str) -> bool:
    address = parseaddr(text)[1]
    local, at, domain = address.rpartition("@")
    return bool(local and at and domain) and " " not in address


def _is_base64(text: str) -> bool:
    if not text or len(text) % 4:
        return False
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch("[0-9]{9}[0-9X]", digits):
        return False
    values = [10 if digit == "X" else int(digit) for digit in digits]
    return sum(position * value for position, value in enumerate(values, 1)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch("[0-9]{13}", digits):
        return False
    return (
        sum(int(digit) * (3 if position % 2 else 1) for position, digit in enumerate(digits)) % 10
        == 0
    )


def _is_credit_card(text: str) -> bool:
    digits = re.sub("[^0-9]+", "", text)
    known = (
        r"4\d{12}(\d{3})?|5[1-5]\d{14}|6(011|5\d\d)\d{12}|3[47]\d{13}|3(0[0-5]|[68]\d)\d{11}"
        r"|(2131|1800|35\d{3})\d{11}"
    )
    if not re.fullmatch(known, digits, re.ASCII):
        return False
    total = 0
    for position, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if position % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


_BYTE = "(?:0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])"

_FORMATS: dict[str, Predicate] = {
    "bsonobjectid": _regex_predicate(f"{_HEX}{{24}}"),
    "byte": _is_base64,
    "cidr": _is_cidr,
    "creditcard": _is_credit_card,
    "date": _is_date,
    "datetime": _is_date_time,
    "duration": _is_duration,
    "email": _is_email,
    "hexcolor": _regex_predicate(f"#?(?:{_HEX}{{3}}|{_HEX}{{6}})"),
    "hostname": _is_hostname,
    "ipv4": lambda text: "." in text and _is_address(text),
    "ipv6": lambda text: ":" in text and _is_address(text),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "k8slongname": lambda text: len(text) <= 253 and _is_dns_subdomain(text),
    "k8sshortname": lambda text: len(text) <= 63 and _is_dns_label(text),
    "mac": _regex_predicate(
        f"{_HEX}{{2}}(?:(?::{_HEX}{{2}}){{5}}|(?::{_HEX}{{2}}){{7}}|(?::{_HEX}{{2}}){{19}})"
        f"|{_HEX}{{2}}(?:(?:-{_HEX}{{2}}){{5}}|(?:-{_HEX}{{2}}){{7}}|(?:-{_HEX}{{2}}){{19}})"
        f"|{_HEX}{{4}}(?:(?:\\.{_HEX}{{4}}){{2}}|(?:\\.{_HEX}{{4}}){{3}}|(?:\\.{_HEX}{{4}}){{9}})"
    ),
    "password": lambda text: True,
    "rgbcolor": _regex_predicate(rf"rgb\(\s*{_BYTE}\s*,\s*{_BYTE}\s*,\s*{_BYTE}\s*\)"),
    "ssn": _regex_predicate(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "uri": _is_uri,
    "uuid": _uuid_predicate(),
    "uuid3": _uuid_predicate(f"3{_HEX}{{3}}"),
    "uuid4": _uuid_predicate(f"4{_HEX}{{3}}", _RFC_VARIANT),
    "uuid5": _uuid_predicate(f"5{_HEX}{{3}}", _RFC_VARIANT),
}

_LABEL = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_is_dns_label = _regex_predicate(_LABEL)
_is_dns_subdomain = _regex_predicate(rf"{_LABEL}(?:\.{_LABEL})*")
