"""Which taints a toleration tolerates."""

from dataclasses import dataclass

import pytest

from kilonova.api.pods.tolerations import is_tolerated, tolerates


@dataclass(frozen=True)
class Taint:
    key: str = "gpu"
    value: str = "h100"
    effect: str = "NoSchedule"


@dataclass(frozen=True)
class Toleration:
    key: str = "gpu"
    operator: str = "Exists"
    value: str = ""
    effect: str = ""


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(), True),
        (Toleration("cpu"), False),
        (Toleration(""), True),
        (Toleration(effect="NoSchedule"), True),
        (Toleration("", effect="NoSchedule"), True),
        (Toleration(effect="NoExecute"), False),
        (Toleration("", effect="NoExecute"), False),
        (Toleration(operator="Equal", value="h100"), True),
        (Toleration(operator="", value="h100"), True),
        (Toleration(operator="Equal", value="a100"), False),
        (Toleration("cpu", "Equal", "h100"), False),
        (Toleration("", "Equal", "h100"), False),
        (Toleration(operator="In", value="h100"), False),
        (Toleration(operator="Gt", value="1"), False),
    ],
)
def test_key_operator_value_and_effect_decide(toleration: Toleration, tolerated: bool) -> None:
    assert tolerates(toleration, Taint()) == tolerated


@pytest.mark.parametrize(
    ("value", "operator", "bound", "tolerated"),
    [
        ("950", "Gt", "900", True),
        ("900", "Gt", "900", False),
        ("900", "Lt", "900", False),
        ("-5", "Lt", "0", True),
        ("0", "Gt", "-5", True),
        ("9223372036854775807", "Gt", "9223372036854775806", True),
        ("9223372036854775808", "Gt", "1", False),
        ("0950", "Gt", "900", False),
        ("+950", "Gt", "900", False),
        (" 950", "Gt", "900", False),
        ("9_50", "Gt", "900", False),
        ("950", "Gt", "", False),
        ("950", "Gt", "-0", False),
    ],
)
def test_comparison_of_decimal_integers(
    value: str, operator: str, bound: str, tolerated: bool
) -> None:
    assert tolerates(Toleration("gpu", operator, bound), Taint("gpu", value)) == tolerated


def test_one_matching_toleration_is_enough() -> None:
    assert is_tolerated(Taint(), [Toleration("cpu"), Toleration("gpu")])
    assert not is_tolerated(Taint(), [Toleration("cpu")])
    assert not is_tolerated(Taint(), [])
