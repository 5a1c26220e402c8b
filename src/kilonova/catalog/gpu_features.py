"""The labels by which NVIDIA GPU feature discovery describes the GPUs of a node. Pure."""

from kilonova.catalog.gpus import GpuModel

PRESENT = "nvidia.com/gpu.present"
PRODUCT = "nvidia.com/gpu.product"
COUNT = "nvidia.com/gpu.count"
MEMORY = "nvidia.com/gpu.memory"
FAMILY = "nvidia.com/gpu.family"
NVLINK_DOMAIN = "nvidia.com/gpu.clique"
"""The NVLink domain of a node of a rack-scale machine."""

_FAMILY_NAMES = {"Ada": "ada-lovelace"}
"""Where GPU feature discovery uses another word than the catalog."""


def build_gpu_labels(
    product: str, count: int, memory: int, model: GpuModel | None
) -> dict[str, str]:
    """The labels of a node with so many GPUs of a product; `memory` of each is MiB. Without a
    model, labels of what only the catalog knows are missing.
    """
    labels = {
        PRESENT: "true",
        PRODUCT: product,
        COUNT: str(count),
        MEMORY: str(memory),
    }
    if model is not None:
        major, minor = model.capability
        labels |= {
            FAMILY: _FAMILY_NAMES.get(model.architecture, model.architecture.lower()),
            "nvidia.com/gpu.compute.major": str(major),
            "nvidia.com/gpu.compute.minor": str(minor),
            "nvidia.com/mig.capable": "true" if model.mig else "false",
        }
    return labels
