"""Telemetry over windows of time: minimum, mean and maximum of each quantity. Pure."""

from collections.abc import Iterator, Mapping

import msgspec

from kilonova.gpu.agent.telemetry.readings import find_utilisation
from kilonova.gpu.devices.model import DeviceTelemetry

_MAX_AGE_SECONDS = 90.0

Quantities = Mapping[str, float]
"""Values by the name of what is measured."""


class Aggregate(msgspec.Struct, frozen=True):
    """A quantity over a window; the mean is weighted by time."""

    minimum: float
    mean: float
    maximum: float
    last: float


class Window(msgspec.Struct, frozen=True):
    """What was measured of a device, or of a MIG instance, from `start` to `end`, in seconds."""

    device: str
    start: float
    end: float
    samples: int
    quantities: Mapping[str, Aggregate]
    instance: str = ""
    last_xid: int = 0


class WindowAggregator:
    """Collects samples; `take` returns the windows since the last call of it.

    A sample counts for the time until the next one, so that the means stay right while the interval
    changes.
    """

    def __init__(self) -> None:
        self._series: dict[tuple[str, str], _Series] = {}

    def add(self, telemetry: DeviceTelemetry, time: float) -> None:
        """Add a sample of a device."""
        self._find(telemetry.uuid, "").add(device_quantities(telemetry), time, telemetry.last_xid)
        for each in telemetry.instances:
            values: dict[str, float] = {}
            if (busy := find_utilisation(each.activity)) is not None:
                values["utilisation"] = busy
            if each.memory_used_bytes is not None:
                values["memory_used_bytes"] = float(each.memory_used_bytes)
            self._find(telemetry.uuid, each.uuid).add(values, time, 0)

    def take(self, time: float) -> tuple[Window, ...]:
        """The windows up to now. Devices that are not measured any more have none."""
        taken: list[Window] = []
        for (device, instance), series in list(self._series.items()):
            window = series.take(device, instance, time)
            if window is None:
                del self._series[device, instance]
            else:
                taken.append(window)
        return tuple(taken)

    def _find(self, device: str, instance: str) -> "_Series":
        return self._series.setdefault((device, instance), _Series())


def device_quantities(telemetry: DeviceTelemetry) -> dict[str, float]:
    """What was measured of a device, by name."""
    return dict(_iter_quantities(telemetry))


def _iter_quantities(telemetry: DeviceTelemetry) -> Iterator[tuple[str, float]]:
    utilisation = find_utilisation(telemetry.activity)
    if utilisation is not None:
        yield "utilisation", utilisation
    for name in ("gpu", "sm_active", "sm_occupancy", "tensor", "dram", "memory_copy"):
        value = getattr(telemetry.activity, name)
        if value is not None:
            yield f"activity_{name}", value
    for name in (
        "memory_used_bytes",
        "power_watts",
        "temperature_celsius",
        "memory_temperature_celsius",
        "sm_clock_mhz",
        "memory_clock_mhz",
        "pcie_sent_bytes",
        "pcie_received_bytes",
        "nvlink_bytes",
    ):
        value = getattr(telemetry, name)
        if value is not None:
            yield name, float(value)


class _Series:
    """The samples of one device or instance since the window began. The last one counts on, until
    it is too old to say anything."""

    def __init__(self) -> None:
        self._start = 0.0
        self._time = 0.0
        self._sampled = 0.0
        self._current: dict[str, float] = {}
        self._minima: dict[str, float] = {}
        self._maxima: dict[str, float] = {}
        self._areas: dict[str, float] = {}
        self._samples = 0
        self._last_xid = 0

    def add(self, values: Quantities, time: float, last_xid: int) -> None:
        if self._current:
            self._advance(time)
        else:
            self._start = self._time = time
        self._current, self._sampled = dict(values), time
        for name, value in values.items():
            self._minima[name] = min(self._minima.get(name, value), value)
            self._maxima[name] = max(self._maxima.get(name, value), value)
        self._samples += 1
        self._last_xid = last_xid

    def take(self, device: str, instance: str, time: float) -> Window | None:
        if time - self._sampled > _MAX_AGE_SECONDS:
            return None
        self._advance(time)
        length = time - self._start
        quantities = {
            name: Aggregate(
                minimum,
                self._mean(name, length),
                self._maxima[name],
                self._current.get(name, self._maxima[name]),
            )
            for name, minimum in self._minima.items()
        }
        window = Window(
            device, self._start, time, self._samples, quantities, instance, self._last_xid
        )
        self._start, self._samples, self._areas = time, 0, {}
        self._minima, self._maxima = dict(self._current), dict(self._current)
        return window

    def _advance(self, time: float) -> None:
        passed = max(0.0, time - self._time)
        for name, value in self._current.items():
            self._areas[name] = self._areas.get(name, 0.0) + value * passed
        self._time = time

    def _mean(self, name: str, length: float) -> float:
        mean = self._areas.get(name, 0.0) / length if length else self._current.get(name, 0.0)
        return min(max(mean, self._minima[name]), self._maxima[name])
