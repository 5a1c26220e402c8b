"""Recordings: what is in such a file, and how it is read."""

from pathlib import Path

import msgspec

from kilonova.gpu.devices.model import DeviceTelemetry, NodeInventory
from kilonova.gpu.devices.recorded.raw_readings import RawMachine, convert_machine


class Recording(msgspec.Struct, frozen=True):
    """The devices of a node, and what was measured of them."""

    inventory: NodeInventory
    telemetry: tuple[DeviceTelemetry, ...] = ()


def read_recording(file: Path) -> Recording:
    """The recording in a file. `OSError` if it cannot be read, `ValueError` if it is none."""
    content = file.read_bytes()
    try:
        keys = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        if "inventory" in keys:
            return msgspec.json.decode(content, type=Recording)
        if "gpu0" in keys:
            raw = msgspec.json.decode(content, type=RawMachine)
            gpus = [
                msgspec.json.decode(value, type=dict[str, object])
                for key, value in keys.items()
                if key.startswith("gpu") and key[3:].isdigit()
            ]
            inventory, telemetry = convert_machine(raw, gpus)
            return Recording(inventory, telemetry)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(f"not a recording: {error}") from error
    raise ValueError("not a recording: it has neither `inventory` nor `gpu0`")
