"""Readings of simulated hardware for tests, and their samples by name."""

from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

from kilonova.api.gpu.annotations import InvalidAnnotation, parse_devices
from kilonova.gpu.agent.telemetry.readings import build_readings
from kilonova.gpu.devices.model import NodeInventory
from kilonova.gpu.devices.simulated import ProcessLoad, SimulatedBackend
from kilonova.gpu.exporter import DeviceUser, ExporterReading, NodeReading
from kilonova.gpu.exporter.collector import render

NODE = "node-a"
Series = dict[tuple[tuple[str, str], ...], float]


def user(pod: str, devices: str, container: str = "main", namespace: str = "default") -> DeviceUser:
    """A container with devices, as in the annotation."""
    parsed = parse_devices(devices)
    assert not isinstance(parsed, InvalidAnnotation)
    return DeviceUser(namespace, pod, f"uid-{pod}", container, parsed)


def read(
    backend: SimulatedBackend,
    *users: DeviceUser,
    pods_of: Mapping[int, str] | None = None,
    inventory: NodeInventory | None = None,
) -> NodeReading:
    """What is measured of a machine now."""
    found = inventory or backend.read_inventory()
    telemetry = tuple(backend.read_telemetry())
    readings = build_readings(found, telemetry)
    return NodeReading(NODE, found, telemetry, readings, users, pods_of or {}, 1_780_000_000.0)


def expose(*nodes: NodeReading) -> "Exposition":
    """The exposition of readings, parsed."""
    body, _ = render(ExporterReading(nodes))
    return Exposition(body.decode())


class Exposition:
    """An exposition in Prometheus' text format."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.series: dict[str, list[tuple[Mapping[str, str], float]]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                self.series.setdefault(sample.name, []).append((sample.labels, sample.value))

    def find(self, name: str, **labels: str) -> list[tuple[Mapping[str, str], float]]:
        """The series with these labels; an empty value is that of a missing label."""
        return [
            (found, value)
            for found, value in self.series.get(name, [])
            if all(found.get(key, "") == wanted for key, wanted in labels.items())
        ]

    def value(self, name: str, **labels: str) -> float:
        """The value of the only series with these labels."""
        found = self.find(name, **labels)
        assert len(found) == 1, f"{name}{labels}: {found}"
        return found[0][1]

    def total(self, name: str, **labels: str) -> float:
        """The sum of the series with these labels."""
        return sum(value for _, value in self.find(name, **labels))


def load(pid: int, activity: float, gibibytes: int = 0) -> ProcessLoad:
    """A process."""
    return ProcessLoad(pid, activity, gibibytes << 30)
