"""A driver's library as `pynvml` calls it: C functions that write into what they are passed.

`pynvml` itself is the real one, a copy of its own per process, so that names, order and types of
arguments are tested with it. Calls can be made to fail with any return code of NVML.
"""

import ctypes
import importlib.util
import sys
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any, cast

from kilonova.gpu.devices.nvml.library import NvmlLibrary

SUCCESS, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND = 0, 2, 3, 6
INSUFFICIENT_SIZE, TIMEOUT, FUNCTION_NOT_FOUND, IN_USE = 7, 10, 13, 19
INSUFFICIENT_RESOURCES, GPU_IS_LOST, RESET_REQUIRED = 23, 15, 16


class Failure:
    """How the calls of a function fail: so many of them, after so many others."""

    def __init__(self, code: int, times: int, skip: int) -> None:
        self.code, self.times, self.skip = code, times, skip

    def take(self) -> int:
        if self.skip:
            self.skip -= 1
            return SUCCESS
        if not self.times:
            return SUCCESS
        self.times -= 1
        return self.code


class FakeLibrary:
    """Functions by their name in C; those of a subclass are methods of that name."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.missing: set[str] = set()
        """Functions that an older driver lacks."""
        self._failures: dict[str, Failure] = {}

    def fail(self, function: str, code: int, times: int = 1_000_000, skip: int = 0) -> None:
        self._failures[function] = Failure(code, times, skip)

    def stop_failing(self) -> None:
        self._failures.clear()

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("nvml") or name in self.missing:
            raise AttributeError(name)
        try:
            function = cast("Callable[..., int]", object.__getattribute__(self, f"c_{name}"))
        except AttributeError:
            raise AssertionError(f"the fake library has no {name}") from None

        def call(*arguments: object) -> int:
            self.calls[name] += 1
            failure = self._failures.get(name)
            code = SUCCESS if failure is None else failure.take()
            return code or function(*arguments)

        return call


def connect(library: FakeLibrary) -> NvmlLibrary:
    """`pynvml` with this library instead of the driver's."""
    module = _load_copy()
    changeable = cast(Any, module)
    changeable.nvmlLib = library
    changeable._nvmlGetFunctionPointer_cache.clear()
    return cast(NvmlLibrary, module)


def number(argument: Any) -> int:
    """The value of a number, passed as it is or as a C type."""
    return int(getattr(argument, "value", argument))


def address(handle: Any) -> int:
    """The address that a handle contains."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def target(argument: Any) -> Any:
    """What a reference refers to."""
    return getattr(argument, "_obj", argument)


def put(argument: Any, value: float) -> int:
    """Write a number through a reference."""
    target(argument).value = value
    return SUCCESS


def put_handle(argument: Any, value: int) -> int:
    """Write a handle through a reference."""
    ctypes.memmove(argument, ctypes.byref(ctypes.c_void_p(value)), ctypes.sizeof(ctypes.c_void_p))
    return SUCCESS


def put_text(buffer: Any, text: str) -> int:
    buffer.value = text.encode()
    return SUCCESS


@lru_cache(maxsize=1)
def _load_copy() -> ModuleType:
    spec = importlib.util.find_spec("pynvml")
    assert spec is not None
    assert spec.origin is not None
    copy = importlib.util.spec_from_file_location("pynvml_of_tests", spec.origin)
    assert copy is not None
    assert copy.loader is not None
    module = importlib.util.module_from_spec(copy)
    sys.modules[copy.name] = module
    copy.loader.exec_module(module)
    return module
