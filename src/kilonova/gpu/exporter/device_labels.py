"""The labels of devices and MIG instances, as DCGM's exporter writes them."""

from kilonova.api.gpu.annotations import normalize_pci_address
from kilonova.gpu.devices.model import Device, MigInstance
from kilonova.gpu.exporter.metrics import Labels

_DOMAIN_DIGITS = 8


def device_labels(node: str, device: Device) -> Labels:
    """The labels of a device.

    The host is in both `Hostname` and `hostname`: DCGM's exporter had the first until 2026, and has
    the second since, and dashboards for either should work. It is the name of the Node.
    """
    return {
        "gpu": str(device.index),
        "UUID": device.uuid,
        "pci_bus_id": dcgm_pci_address(device.pci),
        "device": f"nvidia{device.index if device.minor is None else device.minor}",
        "modelName": device.product,
        "Hostname": node,
        "hostname": node,
    }


def instance_labels(instance: MigInstance) -> Labels:
    """What a MIG instance has beside the labels of its device."""
    return {"GPU_I_PROFILE": instance.profile, "GPU_I_ID": str(instance.gpu_instance)}


def dcgm_pci_address(pci: str) -> str:
    """A PCI address as NVML and DCGM write it: `00000000:18:00.0`, with capital letters."""
    domain, separator, rest = normalize_pci_address(pci).partition(":")
    if not separator or ":" not in rest:
        return pci
    return f"{domain.rjust(_DOMAIN_DIGITS, '0')}:{rest}".upper()
