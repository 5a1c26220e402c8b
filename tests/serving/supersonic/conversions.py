"""Conversions for tests: the values of a release, and what they become."""

from typing import Any

import yaml

from kilonova.serving.supersonic import Conversion, ValuesError, convert_values


def convert(text: str = "", **options: str) -> Conversion:
    """The conversion of values in YAML, of the release `sonic` in the namespace `cms`."""
    return convert_values(yaml.safe_load(text) or {}, "sonic", "cms", **options)


def spec_of(text: str = "", **options: str) -> Any:
    return convert(text, **options).service["spec"]


def group_of(text: str = "", **options: str) -> Any:
    """The group of servers."""
    (group,) = spec_of(text, **options)["servers"]
    return group


def problems_of(text: str, **options: str) -> tuple[str, ...]:
    """What values are refused for."""
    try:
        convert(text, **options)
    except ValuesError as error:
        return error.problems
    raise AssertionError("the values were accepted")
