"""Campaigns: tests that repeat one experiment with many inputs.

A crash at every write of a controller, generated examples, random clusters: the suite tries a
bounded number of them, always the same ones for a seed; `make faults` tries all, in the tests with
the marker `campaign` (property tests get it from `tests/harness/tiers.py`).
"""

import os
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import TypeVar

IS_FULL = bool(os.environ.get("KILONOVA_FULL"))
"""Whether campaigns run at full length, as in `make faults`."""
SEED = int(os.environ.get("KILONOVA_SEED", "1"))

_MIN_EXAMPLES = 20
_REDUCTION = 2

T = TypeVar("T")


def select_cases(cases: Sequence[T], count: int) -> list[T]:
    """At most so many cases, spread evenly over all of them; all in a full campaign."""
    if IS_FULL or len(cases) <= count:
        return list(cases)
    random = Random(SEED)
    borders = [index * len(cases) // count for index in range(count + 1)]
    return [cases[random.randrange(*part)] for part in pairwise(borders)]


def limit_examples(full: int) -> int:
    """How many examples to generate where a full campaign generates `full`."""
    return full if IS_FULL else min(full, max(_MIN_EXAMPLES, full // _REDUCTION))
