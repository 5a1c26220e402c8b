"""The labels by which NVIDIA GPU feature discovery describes the GPUs of a node. Pure."""

from kilonova.catalog.gpus import GpuModel

_FAMILY_NAMES = {"Ada": "ada-lovelace"}
"""Where GPU feature discovery uses another word than the catalog."""


def build_gpu_labels(
    product: str, count: int, memory: int, model: GpuModel | None
) -> dict[str, str]:
    """The labels of a node with so many GPUs of a product; `memory` of each is MiB. Without a
    model, labels of what only the catalog knows are missing.
    """
    labels = {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.count": str(count),
        "nvidia.com/gpu.memory": str(memory),
    }
    if model is not None:
        major, minor = model.capability
        labels |= {
            "nvidia.com/gpu.family": _FAMILY_NAMES.get(
                model.architecture, model.architecture.lower()
            ),
            "nvidia.com/gpu.compute.major": str(major),
            "nvidia.com/gpu.compute.minor": str(minor),
            "nvidia.com/mig.capable": "true" if model.mig else "false",
        }
    return labels
