"""The string formats that are validated in custom kinds."""

import pytest

from kilonova.local.apiserver.schema.structural.formats import format_predicate

GOOD = {
    "bsonobjectid": ["507f1f77bcf86cd799439011"],
    "byte": ["YWJj", "YQ=="],
    "cidr": ["10.0.0.0/8", "fd00::/8", "010.0.0.0/8"],
    "creditcard": ["4111-1111-1111-1111"],
    "date": ["2020-02-29"],
    "date-time": ["2020-01-01T00:00:00Z", "2020-01-01t23:59:59.5+02:00"],
    "duration": ["1h", "1.5h30m", "22 ns", "3 days", "0"],
    "email": ["a@b.example", "A B <a@b.example>"],
    "hexcolor": ["#fff", "00FF7f"],
    "hostname": ["a", "example.com", "1a.example.london"],
    "ipv4": ["1.2.3.4", "01.2.3.4"],
    "ipv6": ["::1", "fe80::1", "::ffff:1.2.3.4"],
    "isbn": ["0321751043", "978-0321751041"],
    "isbn10": ["0321751043"],
    "isbn13": ["978-0321751041"],
    "k8s-long-name": ["a.b-c"],
    "k8s-short-name": ["a-b"],
    "mac": ["00:00:5e:00:53:01", "00-00-5e-00-53-01", "0000.5e00.5301"],
    "password": ["anything"],
    "rgbcolor": ["rgb(255, 0,12)"],
    "ssn": ["111-22-3333"],
    "uri": ["http://a.example/b?c", "/a", "urn:x"],
    "uuid": ["0A0B0c0d-0000-0000-0000-000000000000"],
    "uuid3": ["00000000-0000-3000-0000-000000000000"],
    "uuid4": ["00000000-0000-4000-8000-000000000000"],
    "uuid5": ["00000000-0000-5000-b000-000000000000"],
}
BAD = {
    "bsonobjectid": ["x"],
    "byte": ["YQ", "!", "YWJj="],
    "cidr": ["10.0.0.0", "10.0.0.0/33", "x/8"],
    "creditcard": ["4111-1111-1111-1112"],
    "date": ["2020-02-30", "20200229", "2020-2-1"],
    "date-time": ["2020-01-01", "2020-01-01T24:00:00Z", "2020-01-01T00:00:00"],
    "duration": ["x", "1", "1y"],
    "email": ["a", "@b"],
    "hexcolor": ["#ff"],
    "hostname": ["-a", "a_b", "a.b1", ""],
    "ipv4": ["1.2.3", "::1", "1.2.3.256"],
    "ipv6": ["1.2.3.4", "g::"],
    "isbn": ["0321751044"],
    "isbn10": ["978-0321751041"],
    "isbn13": ["0321751043"],
    "k8s-long-name": ["a..b", "A"],
    "k8s-short-name": ["a.b", "a" * 64],
    "mac": ["00:00"],
    "rgbcolor": ["rgb(256,0,0)"],
    "ssn": ["111-22-333"],
    "uri": ["x", "", "http://a b"],
    "uuid": ["x"],
    "uuid3": ["00000000-0000-4000-0000-000000000000"],
    "uuid4": ["00000000-0000-4000-0000-000000000000"],
    "uuid5": ["00000000-0000-4000-8000-000000000000"],
}


def rows(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(name, text) for name, texts in table.items() for text in texts]


@pytest.mark.parametrize(("name", "text"), rows(GOOD))
def test_valid_text_is_accepted(name: str, text: str) -> None:
    holds = format_predicate(name)
    assert holds is not None
    assert holds(text)


@pytest.mark.parametrize(("name", "text"), rows(BAD))
def test_invalid_text_is_rejected(name: str, text: str) -> None:
    holds = format_predicate(name)
    assert holds is not None
    assert not holds(text)


def test_unknown_format_is_not_validated() -> None:
    assert format_predicate("zip-code") is None
