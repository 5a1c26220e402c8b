"""Kubernetes' CEL functions, one expression each."""

from typing import Any

import pytest

from kilonova.cel.environment import CompileError, Environment, EvaluationError
from tests.cel.conditions import evaluate

TRUE = [
    'quantity("1Gi").isGreaterThan(quantity("1G"))',
    'quantity("1.5Gi") == quantity("1536Mi")',
    'quantity("1").add(quantity("2")).compareTo(quantity("3000m")) == 0',
    'quantity("1").add(5).sub(2).asInteger() == 4',
    'quantity("1.5").isInteger() == false && quantity("2k").isInteger()',
    'quantity("1500m").asApproximateFloat() == 1.5',
    'sign(quantity("-2")) == -1 && isQuantity("3Mi") && !isQuantity("3Q")',
    'ip("10.0.0.1").family() == 4 && ip("::1").isLoopback() && ip("fe80::1").isLinkLocalUnicast()',
    'isIP("::") && !isIP("::ffff:1.2.3.4") && !isIP("1.2.3") && ip("0.0.0.0").isUnspecified()',
    'ip.isCanonical("::1") && !ip.isCanonical("0::1") && ip("8.8.8.8").isGlobalUnicast()',
    'ip("224.0.0.7").isLinkLocalMulticast() && ip("ff02::1").isLinkLocalMulticast()',
    'cidr("10.0.0.0/8").containsIP("10.1.1.1") && cidr("10.0.0.0/8").containsIP(ip("10.1.1.1"))',
    'cidr("10.0.0.0/8").containsCIDR("10.1.0.0/16")',
    '!cidr("10.1.0.0/16").containsCIDR("10.0.0.0/8")',
    'cidr("10.1.2.3/8").masked() == cidr("10.0.0.0/8") && cidr("::/0").prefixLength() == 0',
    'cidr("10.1.2.3/8").ip() == ip("10.1.2.3") && isCIDR("10.1.2.3/8") && !isCIDR("10.1.2.3/33")',
    'url("https://a.b:80/c%20d?x=1&x=2").getQuery()["x"] == ["1", "2"]',
    'url("https://u:p@a.b:80/").getHost() == "a.b:80"',
    'url("https://[::1]:80/").getPort() == "80"',
    'url("https://[::1]:80/").getHostname() == "::1" && url("/p").getScheme() == ""',
    'url("https://a/b c".replace(" ", "%20")).getEscapedPath() == "/b%20c"',
    'isURL("https://a") && isURL("/a") && !isURL("a") && !isURL("")',
    '"abcabd".find("ab.") == "abc" && "xyz".find("ab.") == "" && "aXbX".find("(a|b)X") == "aX"',
    '"abcabd".findAll("ab.") == ["abc", "abd"] && "abcabd".findAll("ab.", 1) == ["abc"]',
    '"a1b22".findAll("[0-9]+") == ["1", "22"] && "aaa".findAll("a", 0) == []',
    "[1, 2, 3].sum() == 6 && [1.5, 2.5].sum() == 4.0 && [].sum() == 0",
    '[3, 1].min() == 1 && ["a", "c"].max() == "c" && [1, 2, 2].isSorted() && ![2, 1].isSorted()',
    '[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2 && ["a"].indexOf("b") == -1',
    'semver("1.2.3").isLessThan(semver("1.10.0"))',
    'semver("1.0.0").isGreaterThan(semver("1.0.0-rc"))',
    'semver("1.2.3+build") == semver("1.2.3") && semver("v01.2", true) == semver("1.2.0")',
    'semver("1.2.3").major() == 1 && semver("1.2.3").minor() == 2 && semver("1.2.3").patch() == 3',
    'semver("1.0.0-alpha.2").compareTo(semver("1.0.0-alpha.10")) == -1',
    'isSemver("1.0.0") && !isSemver("v1.0") && isSemver("v1.0", true) && !isSemver("01.0.0")',
    '"abc".charAt(1) == "b" && "abcb".indexOf("b") == 1 && "abcb".lastIndexOf("b") == 3',
    '"aB".lowerAscii() == "ab" && "aB".upperAscii() == "AB" && " a ".trim() == "a"',
    '"a-b-c".replace("-", "") == "abc" && "a-b-c".replace("-", "", 1) == "ab-c"',
    '"a,b".split(",") == ["a", "b"] && ["a", "b"].join("-") == "a-b"',
    '"abc".substring(1, 2) == "b"',
    '"%s is %d, %.1f".format(["x", 5, 2.25]) == "x is 5, 2.2"',
    "sets.contains([1, 2], [2]) && sets.equivalent([1], [1, 1]) && !sets.intersects([1], [2])",
    'optional.of(1).hasValue() && {"a": 1}[?"b"].orValue(5) == 5 && [1][?3] == optional.none()',
    '{"a": 1}.all(k, v, v == 1) && [5].exists(i, v, i == 0 && v == 5)',
    "[1, 2, 3].transformList(i, v, i + v) == [1, 3, 5] && lists.range(2) == [0, 1]",
    "[3, 1, 2].sort() == [1, 2, 3] && [1, 1].distinct() == [1] && [[1], [2]].flatten() == [1, 2]",
    "[1, 2, 3].slice(1, 2) == [2] && [1, 2].reverse() == [2, 1]",
    'duration("90m") == duration("1h30m")',
    'timestamp("2024-01-01T00:00:00Z").getFullYear() == 2024',
]


@pytest.mark.parametrize("source", TRUE)
def test_functions_return_the_documented_results(source: str) -> None:
    assert evaluate(source) is True


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('quantity("x").isInteger()', "quantities must match the regular expression"),
        ('quantity("1.5").asInteger() == 1', "cannot convert value to integer"),
        ('ip("1").family() == 4', 'IP Address "1" parse error during conversion from string'),
        ('cidr("1.2.3.4").prefixLength() == 4', "network address parse error"),
        ('url("a").getHost() == ""', "URL parse error during conversion from string"),
        ("[].min() == 1", "min called on empty list"),
        ('"a".find("[") == ""', "Illegal regex: "),
        ("{'a': 1}.b == 1", "no such key: b"),
        ("[1][2] == 1", "index out of bounds: 2"),
        ("1 / 0 == 1", "division by zero"),
        ("1 % 0 == 1", "modulus by zero"),
        ("dyn(1) + 'a' == 'b'", "no such overload"),
        ("optional.none().value() == 1", "optional.none() dereference"),
    ],
)
def test_failure_has_kubernetes_message(source: str, message: str) -> None:
    with pytest.raises(EvaluationError) as failure:
        evaluate(source)
    assert str(failure.value).startswith(message)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{'a': 1}.transformMap(k, v, v) == {}", "transformMap and transformMapEntry are not"),
        ("object.x ==", "Syntax error"),
        ("a == 1", "undeclared reference to 'a'"),
    ],
)
def test_unsupported_expression_does_not_compile(source: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        Environment(("object",)).compile(source, {})


def test_expression_is_evaluated_on_many_objects() -> None:
    environment = Environment(("object", "request"))
    program = environment.compile(
        "object.metadata.?labels[?'team'].orValue('') == request.user", {}
    )

    def matches(metadata: dict[str, Any]) -> bool:
        values = {"object": {"metadata": metadata}, "request": {"user": "ml"}}
        return program.run(environment.bind(values))

    assert matches({"labels": {"team": "ml"}})
    assert not matches({})


def test_regex_search_is_linear() -> None:
    source = "object.find('(a+)+$') == ''"
    assert evaluate(source, object="a" * 5000 + "b") is True
