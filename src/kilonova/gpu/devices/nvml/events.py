"""Events of the driver: XIDs, memory errors, changes of MIG, and lost devices."""

import time
from collections.abc import Callable, Mapping, Sequence

from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.model import EventKind, GpuEvent
from kilonova.gpu.devices.nvml.library import EventData, Handle
from kilonova.gpu.devices.nvml.session import Session

_KINDS = {
    0x2: EventKind.ECC_UNCORRECTED,
    0x8: EventKind.XID,
    0x100: EventKind.MIG_CHANGED,
    0x4000: EventKind.DEVICE_LOST,
}
"""By the type of the event in NVML. Corrected errors are counted by telemetry: a failing device
reports thousands of them."""
_TYPES = sum(_KINDS)
_SLICE_SECONDS = 0.5
"""The driver cannot be closed while something waits in it, so that no wait is longer."""
_PAUSE_SECONDS = 1.0
"""After a lost device was reported: until it is gone, each wait fails at once."""

_NEVER: tuple[int, frozenset[str]] = (0, frozenset())

ListDevices = Callable[[], Mapping[str, Handle]]


class EventReader:
    """The event set of all devices. For one thread; it uses the session by itself.

    `now` and `sleep` are in seconds.
    """

    def __init__(
        self,
        session: Session,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._session = session
        self._now = now
        self._sleep = sleep
        self._set: Handle | None = None
        self._made_for = _NEVER
        self._lost: set[str] = set()
        self.last_xids: dict[str, int] = {}
        """The last XID of each device."""

    def wait(self, list_devices: ListDevices, timeout: float) -> Sequence[GpuEvent]:
        """Events of devices; waits for the first one. A lost device is reported once."""
        deadline = self._now() + timeout
        while True:
            left = max(0.0, deadline - self._now())
            with self._session.using():
                devices = list_devices()
                events = self._open_set(devices)
                found = (
                    None
                    if events is None
                    else self._wait_slice(events, devices, min(left, _SLICE_SECONDS))
                )
            if found:
                return found
            if found is None:
                self._sleep(min(_PAUSE_SECONDS, left))
            if self._now() >= deadline:
                return []

    def _wait_slice(
        self, events: Handle, devices: Mapping[str, Handle], seconds: float
    ) -> list[GpuEvent] | None:
        """Events within some time; None if waiting is not possible now."""
        wait = self._session.library.nvmlEventSetWait_v2
        found: list[GpuEvent] = []
        milliseconds = int(seconds * 1000)
        while True:
            try:
                event = self._convert(self._session.call(wait, events, milliseconds))
            except GpuError as error:
                if error.kind is GpuErrorKind.TIMEOUT:
                    return found
                if error.kind is not GpuErrorKind.DEVICE_LOST:
                    self._made_for = _NEVER
                    raise
                return found + self._find_lost(devices) or None
            if event is not None:
                found.append(event)
            milliseconds = 0

    def _open_set(self, devices: Mapping[str, Handle]) -> Handle | None:
        """The event set of these devices; None if none of them has events."""
        session, library = self._session, self._session.library
        wanted = session.generation, frozenset(devices)
        if self._made_for == wanted:
            return self._set
        if self._set is not None and self._made_for[0] == session.generation:
            session.read(library.nvmlEventSetFree, self._set)
        self._set, self._made_for = None, wanted
        events = session.read(library.nvmlEventSetCreate)
        if events is None:
            return None
        registered = [self._register(events, handle) for handle in devices.values()]
        if any(registered):
            self._set = events
        else:
            session.read(library.nvmlEventSetFree, events)
        return self._set

    def _register(self, events: Handle, device: Handle) -> bool:
        session, library = self._session, self._session.library
        try:
            types = session.read(library.nvmlDeviceGetSupportedEventTypes, device) or 0
            if not types & _TYPES:
                return False
            session.read(library.nvmlDeviceRegisterEvents, device, types & _TYPES, events)
        except GpuError as error:
            if error.kind in (GpuErrorKind.DEVICE_LOST, GpuErrorKind.RESET_REQUIRED):
                return False
            raise
        return True

    def _find_lost(self, devices: Mapping[str, Handle]) -> list[GpuEvent]:
        """Which devices do not answer, of those that did before."""
        found: list[GpuEvent] = []
        for uuid, handle in devices.items():
            try:
                self._session.read(self._session.library.nvmlDeviceGetPowerUsage, handle)
                self._lost.discard(uuid)
            except GpuError:
                if uuid not in self._lost:
                    self._lost.add(uuid)
                    found.append(GpuEvent(EventKind.DEVICE_LOST, uuid))
        return found

    def _convert(self, data: EventData) -> GpuEvent | None:
        kind = _KINDS.get(data.eventType)
        if kind is None:
            return None
        try:
            uuid = self._session.read(self._session.library.nvmlDeviceGetUUID, data.device) or ""
        except GpuError:
            uuid = ""
        if kind is EventKind.XID:
            self.last_xids[uuid] = data.eventData
            return GpuEvent(kind, uuid, data.eventData)
        return GpuEvent(kind, uuid)
