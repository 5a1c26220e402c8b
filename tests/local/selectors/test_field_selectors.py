"""Field selectors: text, escapes, matching. Messages are kube-apiserver's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.errors import ApiError
from kilonova.local.selectors import (
    FieldSelector,
    FieldTerm,
    parse_field_selector,
    unknown_field,
    unsupported_field,
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
def test_text_means_these_terms(text: str, terms: list[tuple[str, str, str]]):
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
def test_bad_text_is_refused_in_kubernetes_words(text: str, message: str):
    with pytest.raises(ApiError) as caught:
        parse_field_selector(text)
    assert (caught.value.code, caught.value.message) == (400, message)


def test_absent_field_is_empty():
    selector = parse_field_selector("spec.nodeName=,status.phase!=Failed")
    assert selector.matches({})
    assert selector.matches({"status.phase": "Running", "spec.nodeName": ""})
    assert not selector.matches({"spec.nodeName": "n1"})
    assert not selector.matches({"status.phase": "Failed"})


def test_exact_value_is_for_an_index():
    selector = parse_field_selector("spec.nodeName=n1,metadata.name!=x")
    assert selector.exact("spec.nodeName") == "n1"
    assert selector.exact("metadata.name") is None


def test_fields_that_a_kind_does_not_have_are_bad_requests():
    assert unsupported_field("spec.x").message == "field label not supported: spec.x"
    assert unknown_field("spec.x").message == (
        '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )
    assert {unsupported_field("x").code, unknown_field("x").code} == {400}


TERMS = st.builds(
    FieldTerm,
    st.sampled_from(["metadata.name", "spec.x", "a-b"]),
    st.sampled_from(["=", "!="]),
    st.text("ab,=\\!é", max_size=5),
)


@given(st.lists(TERMS, max_size=4))
def test_selector_reads_its_own_text(terms: list[FieldTerm]):
    again = parse_field_selector(str(FieldSelector(tuple(terms))))
    assert sorted(again.terms, key=str) == sorted(terms, key=str)
    assert parse_field_selector(str(again)) == again


@given(
    st.lists(TERMS, max_size=3),
    st.dictionaries(st.sampled_from(["metadata.name", "spec.x"]), st.text("ab,", max_size=2)),
)
def test_matching_agrees_with_the_plain_meaning(terms: list[FieldTerm], fields: dict[str, str]):
    expected = all(
        (fields.get(term.field, "") == term.value) == (term.operator == "=") for term in terms
    )
    assert FieldSelector(tuple(terms)).matches(fields) == expected
