"""The strategies that are built in."""

import msgspec
import pytest

from kilonova.api.inference_engine import EngineSpec
from kilonova.instances.allocation import AllocationConstraints, AllocationRequest
from kilonova.instances.allocation.strategies import HOST, STRATEGIES

SPEC = msgspec.convert({"model": "m", "targetAgents": 4}, EngineSpec)


def request(*levels: str) -> AllocationRequest:
    return AllocationRequest("team", "a", {}, SPEC, 4, "nvidia.com/gpu", 1, levels)


@pytest.mark.parametrize(
    ("name", "levels", "expected"),
    [
        ("tightest", ("zone", "block", "rack"), {"preferred": ("rack", "block", "zone")}),
        (
            "tightest",
            ("region", "zone", "block", "rack"),
            {"preferred": ("rack", "block", "zone", "region")},
        ),
        ("tightest", ("rack", HOST), {"preferred": ("rack",)}),
        ("tightest", (), {}),
        ("packed", ("zone", "rack"), {"preferred": (HOST,)}),
        ("spread", ("zone", "rack"), {"preferred": ("rack", "zone"), "spread": "rack"}),
        ("spread", ("rack", HOST), {"preferred": ("rack",), "spread": "rack"}),
        ("spread", (HOST,), {"spread": HOST}),
    ],
)
def test_constraints(name: str, levels: tuple[str, ...], expected: dict[str, object]) -> None:
    assert STRATEGIES[name](request(*levels)) == msgspec.convert(expected, AllocationConstraints)
