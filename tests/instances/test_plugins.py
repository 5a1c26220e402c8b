"""Plug-ins of other packages: what they do wrong is said, and stops nothing else."""

import threading
from importlib.metadata import EntryPoint

import pytest

from kilonova.instances.plugins import PluginFailed, PluginSet

MODULE = "tests.instances.test_plugins"
released = threading.Event()


def double(number: int) -> int:
    return 2 * number


def fails(number: int) -> int:
    raise ValueError(f"cannot double {number}")


def returns_text(number: int) -> str:
    return str(number)


def hangs(number: int) -> int:
    released.wait(30)
    return number


not_callable = 5


def plugins(*names: str) -> PluginSet[int, int]:
    points = [EntryPoint(each, f"{MODULE}:{each}", "kilonova.test") for each in names]
    return PluginSet("kilonova.test", {"same": lambda each: each}, int, points)


async def test_function_is_found_by_name() -> None:
    found = plugins("double")
    assert (await found.call("same", 4), await found.call("double", 4)) == (4, 8)
    assert found.list_names() == ["double", "same"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("unknown", "there is no 'unknown' in kilonova.test: use one of fails, missing, not_c"),
        ("fails", f"fails ({MODULE}:fails) failed: ValueError('cannot double 4')"),
        ("returns_text", f"returns_text ({MODULE}:returns_text) returned '4': want int"),
        ("missing", f"missing ({MODULE}:missing) cannot be loaded: AttributeError"),
        ("not_callable", f"not_callable ({MODULE}:not_callable) is not a function"),
    ],
)
async def test_what_is_wrong_is_said(name: str, problem: str) -> None:
    found = plugins("fails", "returns_text", "missing", "not_callable")
    with pytest.raises(PluginFailed) as raised:
        await found.call(name, 4)
    assert str(raised.value).startswith(problem)
    assert raised.value.name == name
    assert await found.call("same", 4) == 4


async def test_function_that_hangs_is_not_called_again() -> None:
    found = plugins("hangs", "double")
    try:
        for problem in ("took more than 1 s", "is disabled"):
            with pytest.raises(PluginFailed, match=problem):
                await found.call("hangs", 4)
        assert await found.call("double", 4) == 8
    finally:
        released.set()
