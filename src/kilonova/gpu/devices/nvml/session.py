"""Calls of NVML: opens the driver when it is first needed, and translates its errors."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar, cast

from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.nvml.library import NvmlLibrary, load_library

P = ParamSpec("P")
T = TypeVar("T")

SUCCESS = 0
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
TIMEOUT = 10
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
IN_USE = 19
NO_DATA = 21
UNINITIALIZED = 1
LIB_RM_VERSION_MISMATCH = 18

KINDS: dict[int, GpuErrorKind] = {
    SUCCESS: GpuErrorKind.NOT_FOUND,  # what pynvml raises for some empty lists
    UNINITIALIZED: GpuErrorKind.UNKNOWN,  # closed meanwhile: the next call opens it again
    INVALID_ARGUMENT: GpuErrorKind.INVALID_REQUEST,
    NOT_SUPPORTED: GpuErrorKind.NOT_SUPPORTED,
    NO_PERMISSION: GpuErrorKind.NO_PERMISSION,
    5: GpuErrorKind.UNKNOWN,  # already initialized
    NOT_FOUND: GpuErrorKind.NOT_FOUND,
    7: GpuErrorKind.UNKNOWN,  # insufficient size
    8: GpuErrorKind.UNKNOWN,  # insufficient power
    9: GpuErrorKind.DRIVER_NOT_FOUND,  # driver not loaded
    TIMEOUT: GpuErrorKind.TIMEOUT,
    11: GpuErrorKind.UNKNOWN,  # interrupt issue
    12: GpuErrorKind.DRIVER_NOT_FOUND,  # library not found
    FUNCTION_NOT_FOUND: GpuErrorKind.NOT_SUPPORTED,
    14: GpuErrorKind.UNKNOWN,  # corrupted infoROM
    GPU_IS_LOST: GpuErrorKind.DEVICE_LOST,
    RESET_REQUIRED: GpuErrorKind.RESET_REQUIRED,
    17: GpuErrorKind.UNKNOWN,  # operating system
    LIB_RM_VERSION_MISMATCH: GpuErrorKind.DRIVER_NOT_FOUND,
    IN_USE: GpuErrorKind.IN_USE,
    20: GpuErrorKind.UNKNOWN,  # memory of the machine
    NO_DATA: GpuErrorKind.UNKNOWN,
    22: GpuErrorKind.NOT_SUPPORTED,  # ECC with vGPU
    23: GpuErrorKind.INSUFFICIENT_RESOURCES,
    24: GpuErrorKind.NOT_SUPPORTED,  # frequency
    25: GpuErrorKind.NOT_SUPPORTED,  # argument version
    26: GpuErrorKind.NOT_SUPPORTED,  # deprecated
    27: GpuErrorKind.UNKNOWN,  # not ready
    28: GpuErrorKind.NOT_FOUND,  # GPU not found
    29: GpuErrorKind.UNKNOWN,  # invalid state
    30: GpuErrorKind.NOT_SUPPORTED,  # type of reset
    999: GpuErrorKind.UNKNOWN,
}
"""What NVML's return codes mean here."""

ABSENT = frozenset(
    {
        *(code for code, kind in KINDS.items() if kind is GpuErrorKind.NOT_SUPPORTED),
        SUCCESS,
        INVALID_ARGUMENT,
        NO_PERMISSION,
        NOT_FOUND,
        14,  # corrupted infoROM: what it holds cannot be read
        NO_DATA,
        27,  # not ready
    }
)
"""The codes by which an optional reading is absent: the device, its mode, the driver or the
permissions of the process do not provide it."""

_REOPENS = frozenset({UNINITIALIZED, LIB_RM_VERSION_MISMATCH})
_HINTS = {
    LIB_RM_VERSION_MISMATCH: "the driver was updated: reload its module or reboot",
    9: "load the NVIDIA driver's module",
    12: "install the NVIDIA driver: libnvidia-ml.so.1 is missing",
}


class Session:
    """The opened driver.

    Several threads may call it at the same time, each within `using`; it is closed for a reset when
    none of them does. What the driver has given out, such as an event set, is void once
    `generation` has changed.
    """

    def __init__(self, library: NvmlLibrary | None = None) -> None:
        self._library = library
        self._is_open = False
        self._lock = threading.RLock()
        self._users_changed = threading.Condition()
        self._users = 0
        self._is_suspended = False
        self.generation = 0
        """How often the driver was opened."""

    @property
    def library(self) -> NvmlLibrary:
        """The functions to call; opens the driver. `GpuError` if that fails."""
        with self._lock:
            if self._library is None:
                self._library = load_library()
            if not self._is_open:
                with self.translated(self._library.nvmlInit):
                    self._library.nvmlInit()
                self._is_open = True
                self.generation += 1
            return self._library

    @contextmanager
    def using(self) -> Generator[None]:
        """The driver stays open within, or is opened; waits for a reset to end."""
        with self._users_changed:
            self._users_changed.wait_for(lambda: not self._is_suspended)
            self._users += 1
        try:
            yield
        finally:
            with self._users_changed:
                self._users -= 1
                self._users_changed.notify_all()

    @contextmanager
    def suspended(self) -> Generator[None]:
        """The driver is closed meanwhile, and nothing opens it."""
        with self._users_changed:
            self._users_changed.wait_for(lambda: not self._is_suspended)
            self._is_suspended = True
            self._users_changed.wait_for(lambda: not self._users)
        try:
            self.close()
            yield
        finally:
            with self._users_changed:
                self._is_suspended = False
                self._users_changed.notify_all()

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of a function; `GpuError` if it fails."""
        with self.translated(function):
            return function(*args, **kwargs)

    def read(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """The result of an optional reading, None if it is absent; `GpuError` if it fails."""
        library = self._library
        assert library is not None
        try:
            return function(*args, **kwargs)
        except library.NVMLError as error:
            if error_code(error) in ABSENT:
                return None
            raise self._translate(error, function) from error

    def is_absent(self, error: GpuError) -> bool:
        """Whether the error of a call means that the reading is absent."""
        cause = error.__cause__
        is_nvml = self._library is not None and isinstance(cause, self._library.NVMLError)
        return is_nvml and cause is not None and error_code(cause) in ABSENT

    @contextmanager
    def translated(self, function: Callable[..., object]) -> Generator[None]:
        """Raise `GpuError` for errors of NVML."""
        library = self._library
        assert library is not None
        try:
            yield
        except library.NVMLError as error:
            raise self._translate(error, function) from error

    def close(self) -> None:
        """Close the driver; the next call opens it again."""
        with self._lock:
            if self._is_open and self._library is not None:
                self._is_open = False
                # Nothing can be done about a driver that cannot be closed either.
                with _ignored(self._library.NVMLError):
                    self._library.nvmlShutdown()

    def _translate(self, error: Exception, function: Callable[..., object]) -> GpuError:
        code = error_code(error)
        if code in _REOPENS:
            self.close()
        detail = f"{error} ({_HINTS[code]})" if code in _HINTS else str(error)
        kind = KINDS.get(code, GpuErrorKind.UNKNOWN)
        return GpuError(kind, getattr(function, "__name__", "NVML"), detail=detail)


def error_code(error: BaseException) -> int:
    """The return code of an error of NVML."""
    return int(cast(Any, error).value)


@contextmanager
def of_device(uuid: str) -> Generator[None]:
    """Errors within name the device."""
    try:
        yield
    except GpuError as error:
        if error.device:
            raise
        raise GpuError(
            error.kind, error.operation, device=uuid, detail=error.detail
        ) from error.__cause__


@contextmanager
def _ignored(error: type[Exception]) -> Generator[None]:
    try:
        yield
    except error:
        return
