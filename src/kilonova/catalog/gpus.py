"""GPU models: what a node agent would discover of one, and how product names lead to it.

A product name (`NVIDIA-H100-80GB-HBM3`, as GPU feature discovery prints it, or with spaces, as NVML
does) is compared by its **words**: a model is meant if all words of one of its products or aliases
occur in the name, whatever else does (`…-SHARED`, `…-MIG-1g.10gb`); the model with most matching
words wins, then the one listed first. Models of one **family** differ in memory: where the memory
of a device is known, it decides between them.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

Amount: TypeAlias = Annotated[int, Meta(ge=0, lt=1 << 31)]
"""MiB, GB/s, or a number of something."""
Wiring: TypeAlias = Literal["switch", "bridge", "cube"]
"""How the GPUs of a machine are linked: by NVSwitches; adjacent ones by a bridge; eight as a cube
mesh."""


class NvLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The NVLinks of one GPU; `bandwidth` is that of all its links in both directions, GB/s."""

    generation: Amount
    links: Amount
    bandwidth: Amount
    wiring: Wiring
    direct_board: Amount = 0
    """The number of GPUs on a board that are linked with each other directly, without NVSwitch."""
    domain: Amount = 0
    """The number of GPUs of several machines in one NVLink domain."""


class GpuModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A GPU model. Memory is MiB as the driver reports it; `sms` is 0 where it is unknown."""

    name: str
    architecture: str
    capability: tuple[Amount, Amount]
    """CUDA compute capability: major, minor."""
    memory: Amount
    products: tuple[str, ...] = ()
    """Names by which drivers and GPU feature discovery call it."""
    aliases: tuple[str, ...] = ()
    family: str = ""
    """Shared by models that differ in memory alone."""
    sms: Amount = 0
    """Streaming multiprocessors."""
    nvlink: NvLink | None = None
    shares_pcie_switch: bool = False
    """Two of a machine share a PCIe switch."""
    mig: str = ""
    """The name of its MIG geometry; empty where the model does not support MIG."""


def select_gpu(models: Sequence[GpuModel], product: str, memory: int = 0) -> GpuModel | None:
    """The model of a product name and, if known, memory in MiB; None if no model matches."""
    words = _split_words(product)
    matches = [(count, model) for model in models if (count := _matching_words(model, words))]
    if not matches:
        return None
    _, best = max(matches, key=lambda match: match[0])
    if memory <= 0 or not best.family:
        return best
    family = [model for model in models if model.family == best.family]
    return min(family, key=lambda model: abs(model.memory - memory))


def _matching_words(model: GpuModel, words: frozenset[str]) -> int:
    """The number of words of the longest of its names whose words all occur; 0 if none."""
    return max((len(each) for each in _model_names(model) if words.issuperset(each)), default=0)


def _model_names(model: GpuModel) -> Iterator[frozenset[str]]:
    for name in (model.name, *model.products, *model.aliases):
        yield _split_words(name)


def _split_words(text: str) -> frozenset[str]:
    return frozenset(re.split(r"[-\s_]+", text.upper()))
