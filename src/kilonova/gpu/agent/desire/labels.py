"""The labels of GPU feature discovery, from a node's inventory. Pure."""

from collections import defaultdict

from kilonova.catalog import Catalog
from kilonova.catalog.gpu_features import build_gpu_labels
from kilonova.gpu.agent.desire.topology import product_label
from kilonova.gpu.devices.model import Device, MigInstance, NodeInventory

_PREFIX = "nvidia.com/"
MIG_LABEL_PREFIX = "nvidia.com/mig-"
"""Of labels that come and go with instances."""


def build_labels(inventory: NodeInventory, catalog: Catalog) -> dict[str, str]:
    """The labels of a node; like GPU feature discovery, they describe it by its first device."""
    devices = inventory.devices
    if not devices:
        return {}
    first = devices[0]
    product = product_label(first.product)
    model = catalog.find_gpu(product, first.memory_mib)
    labels = build_gpu_labels(product, len(devices), first.memory_mib, model)
    if first.capability is not None:
        labels[f"{_PREFIX}gpu.compute.major"] = str(first.capability[0])
        labels[f"{_PREFIX}gpu.compute.minor"] = str(first.capability[1])
    is_capable = any(each.geometry is not None for each in devices)
    labels[f"{_PREFIX}mig.capable"] = "true" if is_capable else "false"
    if is_capable:
        labels[f"{_PREFIX}mig.strategy"] = "mixed"
    labels |= _version_labels("cuda.driver-version", inventory.driver, full=True)
    labels |= _version_labels("cuda.runtime-version", inventory.cuda, full=False)
    if first.fabric is not None and all(each.fabric == first.fabric for each in devices):
        labels[f"{_PREFIX}gpu.clique"] = first.fabric.key
    return labels | _instance_labels(devices, product)


def _version_labels(name: str, version: str, *, full: bool) -> dict[str, str]:
    if not version:
        return {}
    parts = ("major", "minor", "revision") if full else ("major", "minor")
    numbers = version.split(".")
    labels = {
        f"{_PREFIX}{name}.{part}": number for part, number in zip(parts, numbers, strict=False)
    }
    return {**labels, **({f"{_PREFIX}{name}.full": version} if full else {})}


def _instance_labels(devices: tuple[Device, ...], product: str) -> dict[str, str]:
    """Number and size of the instances of each profile, as with the strategy `mixed`."""
    found: defaultdict[str, list[MigInstance]] = defaultdict(list)
    for device in devices:
        for each in device.instances:
            if not each.is_partial:
                found[each.profile].append(each)
    labels: dict[str, str] = {}
    for profile, instances in sorted(found.items()):
        prefix = f"{MIG_LABEL_PREFIX}{profile.replace('+', '.')}"
        labels[f"{prefix}.count"] = str(len(instances))
        labels[f"{prefix}.product"] = f"{product}-MIG-{profile.replace('+', '.')}"
        if instances[0].memory_mib:
            labels[f"{prefix}.memory"] = str(instances[0].memory_mib)
        if instances[0].sms:
            labels[f"{prefix}.multiprocessors"] = str(instances[0].sms)
    return labels
