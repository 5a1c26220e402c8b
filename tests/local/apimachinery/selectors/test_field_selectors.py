"""Field selectors: text, escapes, matching. Messages are kube-apiserver's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apimachinery.selectors import (
    FieldRequirement,
    FieldSelector,
    parse_field_selector,
    unknown_field_error,
    unsupported_field_error,
)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        (",,", []),
        ("metadata.name=x", [("metadata.name", "=", "x")]),
        ("metadata.name==x", [("metadata.name", "=", "x")]),
        ("b!=y,a=x", [("a", "=", "x"), ("b", "!=", "y")]),
        ("a=", [("a", "=", "")]),
        ("a=!x", [("a", "=", "!x")]),
        (r"a=x\,y,b=z", [("a", "=", "x,y"), ("b", "=", "z")]),
        (r"a=x\=y\\", [("a", "=", "x=y\\")]),
        ("=x", [("", "=", "x")]),
    ],
)
def test_text_parses_to_terms(text: str, terms: list[tuple[str, str, str]]):
    found = parse_field_selector(text).terms
    assert [(term.field, term.operator, term.value) for term in found] == terms


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("a=x,b", "invalid selector: 'a=x,b'; can't understand 'b'"),
        ("a in (x)", "invalid selector: 'a in (x)'; can't understand 'a in (x)'"),
        ("a=x=y", "invalid field selector: unescaped character in value: 61"),
        ("a!==x", "invalid field selector: unescaped character in value: 61"),
        ("a=x\\", "invalid field selector: invalid escape sequence: \\"),
        (r"a=x\y", r"invalid field selector: invalid escape sequence: \y"),
    ],
)
def test_bad_text_is_rejected_with_kubernetes_messages(text: str, message: str):
    with pytest.raises(ApiError) as raised:
        parse_field_selector(text)
    assert (raised.value.code, raised.value.message) == (400, message)


def test_absent_field_is_empty():
    selector = parse_field_selector("spec.nodeName=,status.phase!=Failed")
    assert selector.matches({})
    assert selector.matches({"status.phase": "Running", "spec.nodeName": ""})
    assert not selector.matches({"spec.nodeName": "n1"})
    assert not selector.matches({"status.phase": "Failed"})


def test_exact_value_is_for_an_index():
    selector = parse_field_selector("spec.nodeName=n1,metadata.name!=x")
    assert selector.exact_value("spec.nodeName") == "n1"
    assert selector.exact_value("metadata.name") is None


def test_unknown_field_is_a_bad_request():
    assert unsupported_field_error("spec.x").message == "field label not supported: spec.x"
    assert unknown_field_error("spec.x").message == (
        '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )
    assert {unsupported_field_error("x").code, unknown_field_error("x").code} == {400}


TERMS = st.builds(
    FieldRequirement,
    st.sampled_from(["metadata.name", "spec.x", "a-b"]),
    st.sampled_from(["=", "!="]),
    st.text("ab,=\\!é", max_size=5),
)


@given(st.lists(TERMS, max_size=4))
def test_selector_parses_its_own_text(terms: list[FieldRequirement]):
    again = parse_field_selector(str(FieldSelector(tuple(terms))))
    assert sorted(again.terms, key=str) == sorted(terms, key=str)
    assert parse_field_selector(str(again)) == again


@given(
    st.lists(TERMS, max_size=3),
    st.dictionaries(st.sampled_from(["metadata.name", "spec.x"]), st.text("ab,", max_size=2)),
)
def test_matching_agrees_with_a_plain_implementation(
    terms: list[FieldRequirement], fields: dict[str, str]
):
    expected = all(
        (fields.get(term.field, "") == term.value) == (term.operator == "=") for term in terms
    )
    assert FieldSelector(tuple(terms)).matches(fields) == expected
