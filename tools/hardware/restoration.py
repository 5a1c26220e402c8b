"""Leaves GPUs as they were found: no MIG instances, MIG mode disabled, default compute mode."""

from kilonova.gpu.devices.errors import GpuError
from kilonova.gpu.devices.model import Device
from tools.hardware.rig import Rig
from tools.hardware.transcript import Transcript


def is_untouched(device: Device) -> bool:
    """Whether a device has neither MIG mode nor instances, so that it may be changed for a test."""
    return not device.mig_enabled and not device.instances and device.mig_pending is None


def restore_device(rig: Rig, transcript: Transcript, uuid: str) -> bool:
    """Take back what a test changed, by the product's code, else by nvidia-smi."""
    rig.stop_loads()
    try:
        device = rig.backend.read_inventory().find(uuid)
        for instance in () if device is None else device.instances:
            rig.backend.destroy_instance(uuid, instance.uuid)
        if device is not None and not is_untouched(device):
            rig.backend.set_mig_mode(uuid, False)
        rig.backend.set_exclusive_process_mode(uuid, False)
    except GpuError as error:
        transcript.check("the product's code restores the GPU", False, str(error))
        for command in (
            ("nvidia-smi", "mig", "-dci", "-i", uuid),
            ("nvidia-smi", "mig", "-dgi", "-i", uuid),
            ("nvidia-smi", "-i", uuid, "-mig", "0"),
            ("nvidia-smi", "-i", uuid, "-c", "DEFAULT"),
        ):
            code, output = rig.run(command)
            transcript.write(f"- `{' '.join(command)}`: {code}, {' '.join(output.split())[:200]}")
    device = rig.backend.read_inventory().find(uuid)
    return transcript.check(
        "the GPU is as it was found: MIG disabled, no instances",
        device is not None and is_untouched(device),
    )
