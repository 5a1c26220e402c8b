"""The health of a GPU, from what it is and what was measured of it. Pure.

A **problem** (`problems`) is something that is wrong at one moment, such as a memory row that could
not be remapped. A device is as healthy as its worst problem. Problems that come and go, such as a
device that is too hot, count once they have lasted, and go on to count for some time after they
have passed: `assessment` remembers since when.

What XIDs mean is in `kilonova.catalog.xids`.
"""

from kilonova.gpu.health.assessment import (
    IMMEDIATE,
    HealthHistory,
    HealthSettings,
    assess_device,
)
from kilonova.gpu.health.problems import Problem, find_problems

__all__ = [
    "IMMEDIATE",
    "HealthHistory",
    "HealthSettings",
    "Problem",
    "assess_device",
    "find_problems",
]
