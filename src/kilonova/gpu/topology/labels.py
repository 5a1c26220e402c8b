"""The labels of GPU feature discovery, from a node's inventory. Pure.

Devices are labelled as with the MIG strategy `mixed`: the labels of GPUs describe whole ones, those
of each MIG profile (`nvidia.com/mig-1g.10gb.count`) its instances.
"""

from collections import defaultdict
from collections.abc import Sequence

from kilonova.catalog import Catalog
from kilonova.catalog.gpu_features import build_gpu_labels
from kilonova.gpu.devices.model import Device, MigInstance, MigResources, NodeInventory

MIG_LABEL_PREFIX = "nvidia.com/mig-"
"""Of labels that come and go with instances."""
_PREFIX = "nvidia.com/"


def build_labels(inventory: NodeInventory, catalog: Catalog) -> dict[str, str]:
    """The labels of a node; like GPU feature discovery, they describe it by its first device."""
    devices = inventory.devices
    if not devices:
        return {}
    first = devices[0]
    product = first.product.replace(" ", "-")
    model = catalog.find_gpu(product, first.memory_mib)
    labels = build_gpu_labels(product, len(devices), first.memory_mib, model)
    labels |= _unshared("gpu")
    if first.capability is not None:
        labels[f"{_PREFIX}gpu.compute.major"] = str(first.capability[0])
        labels[f"{_PREFIX}gpu.compute.minor"] = str(first.capability[1])
    is_capable = any(each.geometry is not None for each in devices)
    labels[f"{_PREFIX}mig.capable"] = "true" if is_capable else "false"
    if is_capable:
        labels[f"{_PREFIX}mig.strategy"] = "mixed"
    # It reports whether all devices of the node are shared by MPS, which pods here choose for
    # themselves.
    labels[f"{_PREFIX}mps.capable"] = "false"
    labels |= _version_labels("cuda.driver", inventory.driver, ("major", "minor", "rev"))
    labels |= _version_labels("cuda.runtime", inventory.cuda, ("major", "minor"))
    if first.fabric is not None and all(each.fabric == first.fabric for each in devices):
        labels[f"{_PREFIX}gpu.clique"] = first.fabric.key
    return labels | _instance_labels(devices, product)


def _unshared(resource: str) -> dict[str, str]:
    return {
        f"{_PREFIX}{resource}.replicas": "1",
        f"{_PREFIX}{resource}.sharing-strategy": "none",
    }


def _version_labels(name: str, version: str, parts: Sequence[str]) -> dict[str, str]:
    """`cuda.driver-version.major`, …, `.full`, and what they were called before."""
    if not version:
        return {}
    labels = {f"{_PREFIX}{name}-version.full": version}
    for part, number in zip(parts, version.split("."), strict=False):
        new = "revision" if part == "rev" else part
        labels[f"{_PREFIX}{name}-version.{new}"] = number
        labels[f"{_PREFIX}{name}.{part}"] = number
    return labels


def _instance_labels(devices: Sequence[Device], product: str) -> dict[str, str]:
    """Number, size and engines of the instances of each profile."""
    found: defaultdict[str, list[tuple[MigInstance, Device]]] = defaultdict(list)
    for device in devices:
        for each in device.instances:
            if not each.is_partial:
                found[each.profile].append((each, device))
    labels: dict[str, str] = {}
    for profile, instances in sorted(found.items()):
        labels |= _profile_labels(profile, len(instances), *instances[0], product)
    return labels


def _profile_labels(
    profile: str, count: int, instance: MigInstance, device: Device, product: str
) -> dict[str, str]:
    name = profile.replace("+", ".")
    resources = next(
        (each for each in device.mig_resources if each.profile == profile), MigResources(profile)
    )
    known = None if device.geometry is None else device.geometry.profile(profile)
    compute = 0 if known is None else known.compute
    amounts = {
        "memory": instance.memory_mib or resources.memory_mib,
        "multiprocessors": instance.sms or resources.sms,
        # The compute instance has all of its GPU instance.
        "slices.gi": compute,
        "slices.ci": compute,
    }
    engines = {
        "engines.copy": resources.copy_engines,
        "engines.decoder": resources.decoders,
        "engines.encoder": resources.encoders,
        "engines.jpeg": resources.jpeg_engines,
        "engines.ofa": resources.ofa_engines,
    }
    values = {key: amount for key, amount in amounts.items() if amount}
    if resources != MigResources(profile):
        values |= engines
    return {
        f"{MIG_LABEL_PREFIX}{name}.count": str(count),
        f"{MIG_LABEL_PREFIX}{name}.product": f"{product}-MIG-{name}",
        **_unshared(f"mig-{name}"),
        **{f"{MIG_LABEL_PREFIX}{name}.{key}": str(value) for key, value in values.items()},
    }
