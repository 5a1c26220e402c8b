"""Label selectors: text, objects, and matching. Messages are kube-apiserver's."""

import string
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apimachinery.selectors import (
    EVERYTHING,
    NOTHING,
    LabelSelector,
    Operator,
    Requirement,
    parse_label_selector,
    selector_from_object,
)

BAD_KEY = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
BAD_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
OPERATORS = "in, notin, =, ==, !=, gt, lt"


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        ("", []),
        (" \t", []),
        ("a=b", [Requirement("a", "=", ("b",))]),
        ("a==b", [Requirement("a", "=", ("b",))]),
        ("b!=c , a", [Requirement("a", "exists"), Requirement("b", "!=", ("c",))]),
        ("a=", [Requirement("a", "=", ("",))]),
        ("a=,b", [Requirement("a", "=", ("",)), Requirement("b", "exists")]),
        ("! x", [Requirement("x", "!")]),
        ("x in (b, a,b)", [Requirement("x", "in", ("a", "b"))]),
        ("x in(a)", [Requirement("x", "in", ("a",))]),
        ("x notin ()", [Requirement("x", "notin", ("",))]),
        ("x in (,a)", [Requirement("x", "in", ("", "a"))]),
        ("x in (a,)", [Requirement("x", "in", ("", "a"))]),
        ("x in (a,,b)", [Requirement("x", "in", ("", "a", "b"))]),
        ("in in (in,notin)", [Requirement("in", "in", ("in", "notin"))]),
        ("notin", [Requirement("notin", "exists")]),
        ("a>5,b<6", [Requirement("a", ">", ("5",)), Requirement("b", "<", ("6",))]),
        ("example.com/x=1", [Requirement("example.com/x", "=", ("1",))]),
    ],
)
def test_text_parses_to_requirements(text: str, requirements: list[Requirement]):
    assert list(parse_label_selector(text).requirements) == requirements


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,,b", "found ',', expected: identifier after ','"),
        ("a=b,", "found '', expected: identifier after ','"),
        ("=b", "found '=', expected: !, identifier, or 'end of string'"),
        ("(a)", "found '(', expected: !, identifier, or 'end of string'"),
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a in (b,c)d", "found 'd', expected: ',' or 'end of string'"),
        ("a b", f"unable to parse requirement: found 'b', expected: {OPERATORS}"),
        ("a!b", f"unable to parse requirement: found '!', expected: {OPERATORS}"),
        ("a in a", "unable to parse requirement: found 'a' expected: '('"),
        ("a notin", "unable to parse requirement: found '' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
        ("a in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        ("a in (b,=)", "unable to parse requirement: found '=', expected: ',', or identifier"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("!!a", "unable to parse requirement: found '!', expected: identifier"),
        ("a===b", "unable to parse requirement: found '=', expected: identifier"),
        ("a=>b", "unable to parse requirement: found '>', expected: identifier"),
        ("a=(b)", "unable to parse requirement: found '(', expected: identifier"),
        ("-a", f'unable to parse requirement: <nil>: Invalid value: "-a": {BAD_KEY}'),
        (
            "/x",
            "unable to parse requirement: <nil>: "
            'Invalid value: "/x": prefix part must be non-empty',
        ),
        ("a=-b", f'unable to parse requirement: values[0][a]: Invalid value: "-b": {BAD_VALUE}'),
        (
            "a in (-x,b)",
            f'unable to parse requirement: values[0][a]: Invalid value: "-x": {BAD_VALUE}',
        ),
        (
            "a>x",
            'unable to parse requirement: values[0]: Invalid value: "x": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ],
)
def test_bad_text_is_rejected_with_kubernetes_messages(text: str, message: str):
    with pytest.raises(ApiError) as raised:
        parse_label_selector(text)
    assert (raised.value.code, raised.value.message) == (400, message)


@pytest.mark.parametrize(
    ("text", "matching", "others"),
    [
        ("a=1", [{"a": "1"}, {"a": "1", "b": "2"}], [{}, {"a": "2"}]),
        ("a!=1", [{}, {"a": "2"}], [{"a": "1"}]),
        ("a in (1,2)", [{"a": "1"}, {"a": "2"}], [{}, {"a": "3"}]),
        ("a notin (1,2)", [{}, {"a": "3"}], [{"a": "1"}]),
        ("a in ()", [{"a": ""}], [{}, {"a": "1"}]),
        ("a", [{"a": ""}], [{}]),
        ("!a", [{}, {"b": ""}], [{"a": ""}]),
        ("a>5", [{"a": "6"}, {"a": "+10"}], [{}, {"a": "5"}, {"a": "x"}, {"a": "6_0"}]),
        ("a<5", [{"a": "-6"}], [{}, {"a": "5"}, {"a": "9" * 30}, {"a": "-" + "9" * 70}]),
        ("a=1,b,!c", [{"a": "1", "b": ""}], [{"a": "1"}, {"a": "1", "b": "", "c": ""}]),
        ("", [{}, {"a": "1"}], []),
    ],
)
def test_selector_matches(text: str, matching: list[dict[str, str]], others: list[dict[str, str]]):
    matches = parse_label_selector(text).matches
    assert all(matches(labels) for labels in matching)
    assert not any(matches(labels) for labels in others)


def test_absent_object_selects_nothing_and_empty_one_everything():
    assert selector_from_object(None) == NOTHING
    assert selector_from_object({}) == EVERYTHING
    for labels in ({}, {"": ""}, {"a": "b"}):
        assert not NOTHING.matches(labels)
        assert EVERYTHING.matches(labels)
    assert NOTHING
    assert not EVERYTHING


def test_object_equals_the_selector_of_its_text():
    selector = selector_from_object(
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["front", "back"]},
                {"key": "zone", "operator": "NotIn", "values": ["z"]},
                {"key": "gpu", "operator": "Exists"},
                {"key": "old", "operator": "DoesNotExist", "values": []},
            ],
        }
    )
    text = "app=web,gpu,!old,tier in (back,front),zone notin (z)"
    assert str(selector) == text
    assert parse_label_selector(text) == selector


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (
            {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]},
            '"Gt" is not a valid label selector operator',
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "In"}]},
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["1"]}]},
            'values: Invalid value: ["1"]: values set must be empty for exists and does not exist',
        ),
        ({"matchLabels": {"a b": "c"}}, f'key: Invalid value: "a b": {BAD_KEY}'),
        (
            {"matchLabels": {"a b": "-"}},
            f'[key: Invalid value: "a b": {BAD_KEY}, '
            f'values[0][a b]: Invalid value: "-": {BAD_VALUE}]',
        ),
    ],
)
def test_bad_object_is_rejected(selector: dict[str, object], message: str):
    with pytest.raises(ApiError) as raised:
        selector_from_object(selector)
    assert (raised.value.code, raised.value.message) == (400, message)


@pytest.mark.parametrize(
    ("text", "value"),
    [("a=1,b", "1"), ("a in (1)", "1"), ("a in (1,2)", None), ("a!=1", None), ("b=1", None)],
)
def test_exact_value_is_for_an_index(text: str, value: str | None):
    assert parse_label_selector(text).exact_value("a") == value


KEYS = st.sampled_from(["a", "b", "in", "notin", "x.io/a"])
VALUES = st.text(string.ascii_letters + string.digits, max_size=2)


OPERATORS_OF_A_REQUIREMENT: tuple[Operator, ...] = get_args(Operator)


@st.composite
def requirements(draw: st.DrawFn) -> Requirement:
    key = draw(KEYS)
    operator: Operator = draw(st.sampled_from(OPERATORS_OF_A_REQUIREMENT))
    match operator:
        case "=" | "!=":
            values = [draw(VALUES)]
        case "in" | "notin":
            values = draw(st.lists(VALUES, min_size=1, max_size=3))
        case ">" | "<":
            values = [str(draw(st.integers(0, 99)))]
        case _:
            values = []
    return Requirement(key, operator, tuple(sorted(set(values))))


LABELS = st.dictionaries(KEYS, VALUES | st.integers(0, 99).map(str), max_size=4)


def holds(one: Requirement, labels: dict[str, str]) -> bool:
    """A plain implementation of a requirement."""
    there = one.key in labels
    if one.operator in ("exists", "!"):
        return there == (one.operator == "exists")
    if one.operator in ("=", "in"):
        return there and labels[one.key] in one.values
    if one.operator in ("!=", "notin"):
        return not (there and labels[one.key] in one.values)
    if not there or not labels[one.key].isdecimal():
        return False
    found, limit = int(labels[one.key]), int(one.values[0])
    return found > limit if one.operator == ">" else found < limit


@given(st.lists(requirements(), max_size=4), LABELS)
def test_matching_agrees_with_a_plain_implementation(
    wanted: list[Requirement], labels: dict[str, str]
):
    selector = LabelSelector(tuple(wanted))
    assert selector.matches(labels) == all(holds(one, labels) for one in wanted)


@given(st.lists(requirements(), max_size=4))
def test_selector_parses_its_own_text(wanted: list[Requirement]):
    selector = LabelSelector(tuple(wanted))
    assert parse_label_selector(str(selector)) == selector


@given(st.text("ab=!,()<> in\tnotin-", max_size=20))
def test_every_accepted_text_round_trips(text: str):
    try:
        selector = parse_label_selector(text)
    except ApiError:
        return
    assert parse_label_selector(str(selector)) == selector
