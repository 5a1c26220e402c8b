"""Prometheus' text format: what is read, and what is left out."""

import pytest

from kilonova.serving.signals.readings.exposition import parse_samples, parse_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        ("1e-05", 1e-05),
        ("1219.6721311475409947888692840934", 1219.6721311475409),
        ("3 1700000000000", 3.0),
        ("NaN", None),
        ("+Inf", None),
        ("nil", None),
        ("", None),
        # Whatever is counted is not negative, and there are not so many.
        ("-1", None),
        ("1e308", None),
        ("1e18", 1e18),
    ],
)
def test_value_is_a_number_that_can_be_or_unknown(text: str, value: float | None) -> None:
    assert parse_value(text) == value


def test_only_samples_that_are_asked_for_are_read() -> None:
    text = "a 1\na_total 2\nab 3\n# a 4\n"
    assert [(each.name, each.value) for each in parse_samples(text, ["a"])] == [("a", 1.0)]


def test_labels_may_contain_anything() -> None:
    (sample,) = parse_samples('a{x="1, }",y="\\"q\\"",le="+Inf"} 7', ["a"])
    assert sample.labels == {"x": "1, }", "y": '\\"q\\"', "le": "+Inf"}
    assert sample.value == 7


def test_garbage_is_harmless() -> None:
    text = 'a{x="1"\na{} \na}{ 1\na NaN\na{x=1} x\n\x00\na 5'
    assert [each.value for each in parse_samples(text, ["a"]) if each.name == "a"][-1] == 5
