"""What identifies the GPUs of simulated nodes: derived from the node's name and the index. Pure."""

from uuid import UUID, uuid5

_NAMESPACE = UUID("5f3c1a0e-6f0b-5d53-9c2e-6b0a4a1d7c11")
_FIRST_BUS = 0x18
_BUS_STEP = 3


def derive_gpu_uuid(node: str, index: int) -> str:
    """The UUID of a GPU, in NVIDIA's form."""
    return f"GPU-{uuid5(_NAMESPACE, f'{node}/{index}')}"


def derive_mig_uuid(node: str, index: int, profile: str, start: int) -> str:
    """The UUID of a MIG instance, in NVIDIA's form."""
    return f"MIG-{uuid5(_NAMESPACE, f'{node}/{index}/{profile}@{start}')}"


def derive_pci_address(index: int) -> str:
    """The PCI address of a GPU."""
    return f"0000:{_FIRST_BUS + _BUS_STEP * index:02x}:00.0"
