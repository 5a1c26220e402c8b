"""Plug-ins of instances: functions by name, built in or of installed packages.

What is built in is called directly. A function of another package runs in a thread of its own, with
a timeout: whatever it does, it fails only the instance that names it. One that exceeds its timeout
is not called again.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import EntryPoint
from typing import Generic, TypeVar, cast

from kilonova.component.entry_points import find_entry_points
from kilonova.kube.observability.structured_logging import get_logger

A = TypeVar("A")
R = TypeVar("R")

_TIMEOUT_SECONDS = 1.0

_log = get_logger(__name__)


class PluginFailed(Exception):
    """A plug-in that does not exist, cannot be loaded, or did not answer as it must."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(problem)
        self.name = name


class PluginSet(Generic[A, R]):
    """The functions of an entry-point group, which take an `A` and return a `result`."""

    def __init__(
        self,
        group: str,
        builtin: Mapping[str, Callable[[A], R]],
        result: type[R],
        offered: Iterable[EntryPoint] | None = None,
    ) -> None:
        """`offered` replaces the entry points of installed packages."""
        self._group = group
        self._builtin = builtin
        self._result = result
        self._offered = offered
        self._loaded: dict[EntryPoint, _GuardedFunction[A, R]] = {}

    async def call(self, name: str, argument: A) -> R:
        """Call a plug-in; raises `PluginFailed`."""
        builtin = self._builtin.get(name)
        if builtin is not None:
            return builtin(argument)
        return await self._find(name).call(argument)

    def list_names(self) -> list[str]:
        """The names of all plug-ins."""
        return sorted({*self._builtin, *(point.name for point in self._list_points())})

    def _find(self, name: str) -> "_GuardedFunction[A, R]":
        point = next((each for each in self._list_points() if each.name == name), None)
        if point is None:
            known = ", ".join(self.list_names())
            raise PluginFailed(name, f"there is no {name!r} in {self._group}: use one of {known}")
        if point not in self._loaded:
            try:
                function: object = point.load()
            except Exception as error:
                problem = f"{name} ({point.value}) cannot be loaded: {error!r}"
                raise PluginFailed(name, problem) from error
            if not callable(function):
                raise PluginFailed(name, f"{name} ({point.value}) is not a function")
            call = cast("Callable[[A], object]", function)
            self._loaded[point] = _GuardedFunction(point, call, self._result)
        return self._loaded[point]

    def _list_points(self) -> Iterable[EntryPoint]:
        return find_entry_points(self._group) if self._offered is None else self._offered


class _GuardedFunction(Generic[A, R]):
    """A function of another package, with a timeout."""

    def __init__(self, point: EntryPoint, function: Callable[[A], object], result: type[R]) -> None:
        self._name = point.name
        self._where = f"{point.name} ({point.value})"
        self._function = function
        self._result = result
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"plugin-{point.name}")
        self._has_timed_out = False

    async def call(self, argument: A) -> R:
        if self._has_timed_out:
            raise PluginFailed(self._name, f"{self._where} is disabled: it timed out before")
        future = asyncio.get_running_loop().run_in_executor(self._thread, self._function, argument)
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                found = await future
        except TimeoutError:
            self._has_timed_out = True
            self._thread.shutdown(wait=False)
            _log.warning("plug-in timed out and is disabled", plugin=self._where)
            problem = f"{self._where} took more than {_TIMEOUT_SECONDS:g} s"
            raise PluginFailed(self._name, problem) from None
        except Exception as error:
            raise PluginFailed(self._name, f"{self._where} failed: {error!r}") from error
        if not isinstance(found, self._result):
            problem = f"{self._where} returned {found!r}: want {self._result.__name__}"
            raise PluginFailed(self._name, problem)
        return found
