"""The health of devices by their telemetry: memory that fails, clocks that stay lowered, links that
are down. Pure, apart from what it remembers."""

from collections.abc import Mapping, Sequence

from kilonova.catalog import Catalog
from kilonova.gpu.devices.model import DeviceHealth, DeviceTelemetry, HealthState, NodeInventory
from kilonova.gpu.health import HealthHistory, assess_device, find_problems

_BY_EVENTS = ("xid:", "reported:", "unmeasured")
"""Problems that the agent learns otherwise, and whose end it decides itself."""


class MeasuredHealth:
    """Remembers how long problems have lasted."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._histories: dict[str, HealthHistory] = {}

    def assess(
        self, inventory: NodeInventory, samples: Sequence[DeviceTelemetry], now: float
    ) -> Mapping[str, DeviceHealth]:
        """The devices that are not healthy, by UUID. `now` is in seconds."""
        found: dict[str, DeviceHealth] = {}
        for sample in samples:
            device = inventory.find(sample.uuid)
            if device is None:
                continue
            model = self._catalog.find_gpu(device.product, device.memory_mib)
            problems = [
                each
                for each in find_problems(device, sample, model)
                if not each.key.startswith(_BY_EVENTS)
            ]
            history = self._histories.get(device.uuid, HealthHistory())
            health, self._histories[device.uuid] = assess_device(problems, history, now)
            if health.state is not HealthState.HEALTHY:
                found[device.uuid] = health
        return found
