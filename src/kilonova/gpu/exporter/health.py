"""Whether devices answer, what is wrong with them, and how old the telemetry is. Pure."""

from collections.abc import Iterator

from kilonova.catalog.xids import find_xid
from kilonova.gpu.devices.model import HealthState
from kilonova.gpu.exporter.metrics import Sample, counter, gauge
from kilonova.gpu.exporter.model import NodeReading

_ANSWERS = gauge(
    "kilonova_gpu_answers", "Whether a GPU of the node was measured by the last telemetry."
)
_STATE = gauge("kilonova_gpu_health", "Health of a GPU: 1 for the state that it is in, else 0.")
_MEASURED = gauge(
    "kilonova_gpu_telemetry_timestamp_seconds", "When the telemetry of a node was last read."
)
_THROTTLED = gauge("kilonova_gpu_throttled", "A reason why the clocks of a GPU are lowered now.")
_XIDS = counter("kilonova_gpu_xid_errors", "XIDs of a GPU since the agent started.")
_XID_TIME = gauge("kilonova_gpu_xid_timestamp_seconds", "When an XID last occurred on a GPU.")


def list_health_samples(reading: NodeReading) -> Iterator[Sample]:
    """The samples of all devices of the inventory, lost ones included."""
    if reading.measured is not None:
        yield Sample(_MEASURED, {"node": reading.node}, reading.measured)
    telemetry = {each.uuid: each for each in reading.telemetry}
    for device in reading.inventory.devices:
        labels = {"node": reading.node, "gpu": str(device.index), "UUID": device.uuid}
        measured = telemetry.get(device.uuid)
        if reading.measured is not None:
            yield Sample(_ANSWERS, labels, float(measured is not None))
        for state in HealthState:
            value = float(device.health.state is state)
            yield Sample(_STATE, {**labels, "state": state.value}, value)
        for reason in () if measured is None else measured.throttle_reasons:
            yield Sample(_THROTTLED, {**labels, "reason": reason}, 1.0)
    indices = {each.uuid: str(each.index) for each in reading.inventory.devices}
    for xid in reading.xids:
        labels = {
            "node": reading.node,
            "gpu": indices.get(xid.device, ""),
            "UUID": xid.device,
            "xid": str(xid.code),
            "action": find_xid(xid.code).action.value,
        }
        yield Sample(_XIDS, labels, xid.count)
        yield Sample(_XID_TIME, labels, xid.last)
