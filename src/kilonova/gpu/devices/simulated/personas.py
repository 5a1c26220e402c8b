"""Personas: the machines that are simulated, by name."""

import msgspec

from kilonova.catalog import Catalog, GpuModel

_MAX_GPUS = 64


class Persona(msgspec.Struct, frozen=True):
    """A machine with GPUs: the names of their models in the catalog, by index."""

    name: str
    models: tuple[str, ...]
    domain: str = ""
    """UUID of the NVLink domain that it shares with other machines."""


class UnknownPersona(ValueError):
    """A name that is neither a persona nor a GPU model of the catalog."""


class BoardFacts(msgspec.Struct, frozen=True):
    """What the driver reports of a board and the catalog does not have."""

    pci_id: int = 0
    power_limit_watts: float = 300
    max_sm_clock_mhz: int = 1755
    max_memory_clock_mhz: int = 2619
    pcie_generation: int = 4


_NVL72 = "5f3c1a0e-6f0b-5d53-9c2e-000000000072"


def _machines() -> tuple[Persona, ...]:
    return (
        Persona("a100-40", ("A100-SXM4-40GB",) * 8),
        Persona("a100-80", ("A100-SXM4-80GB",) * 8),
        Persona("h100", ("H100-SXM5-80GB",) * 8),
        Persona("h200", ("H200",) * 8),
        Persona("b200", ("B200",) * 8),
        Persona("gb200-nvl72", ("GB200",) * 4, domain=_NVL72),
        Persona("l40s", ("L40S",) * 8),
        Persona("l4", ("L4",) * 8),
        Persona("t4", ("T4",) * 4),
        Persona("mixed", ("H100-NVL", "H100-NVL", "A100-PCIE-80GB", "L40S", "L4", "T4")),
    )


PERSONAS: dict[str, Persona] = {persona.name: persona for persona in _machines()}
"""The personas by name; of `gb200-nvl72` one compute tray of eighteen."""

BOARDS: dict[str, BoardFacts] = {
    "T4": BoardFacts(0x1EB810DE, 70, 1590, 5001, 3),
    "L4": BoardFacts(0x27B810DE, 72, 2040, 6251, 4),
    "L40S": BoardFacts(0x26B910DE, 350, 2520, 9001, 4),
    "A30": BoardFacts(0x20B710DE, 165, 1440, 1215, 4),
    "A100-SXM4-40GB": BoardFacts(0x20B010DE, 400, 1410, 1215, 4),
    "A100-SXM4-80GB": BoardFacts(0x20B210DE, 400, 1410, 1593, 4),
    "A100-PCIE-40GB": BoardFacts(0x20F110DE, 250, 1410, 1215, 4),
    "A100-PCIE-80GB": BoardFacts(0x20B510DE, 300, 1410, 1512, 4),
    "H100-SXM5-80GB": BoardFacts(0x233010DE, 700, 1980, 2619, 5),
    "H100-PCIE-80GB": BoardFacts(0x233110DE, 350, 1755, 1593, 5),
    "H100-NVL": BoardFacts(0x232110DE, 400, 1785, 2619, 5),
    "H200": BoardFacts(0x233510DE, 700, 1980, 3201, 5),
    "B200": BoardFacts(0x290110DE, 1000, 1965, 3996, 6),
    "GB200": BoardFacts(0x294110DE, 1200, 2062, 3996, 6),
}
"""By the name of the model. Power and clocks of NVIDIA's data sheets, those of the H200 as read
from a device; PCI ids of mig-parted's device filters and the PCI id database."""


def find_persona(text: str, catalog: Catalog) -> Persona:
    """A persona by its name, or a number of GPUs of a model of the catalog: `h100`, `h100:4`,
    `H100-NVL:2`.

    `UnknownPersona` with what is known.
    """
    name, separator, number = text.partition(":")
    if separator and not (number.isascii() and number.isdigit() and 0 < int(number) <= _MAX_GPUS):
        raise UnknownPersona(f"{text}: the number of GPUs must be 1 to {_MAX_GPUS}")
    count = int(number) if separator else 0
    known = PERSONAS.get(name.lower())
    if known is not None:
        if not count:
            return known
        repeated = known.models * -(-count // len(known.models))
        return Persona(known.name, repeated[:count], known.domain)
    model = catalog.find_gpu(name)
    if model is None:
        names = ", ".join(PERSONAS)
        raise UnknownPersona(f"{name}: neither a persona ({names}) nor a GPU of the catalog")
    return Persona(model.name, (model.name,) * (count or 1))


def find_models(persona: Persona, catalog: Catalog) -> tuple[GpuModel, ...]:
    """The models of its GPUs. `UnknownPersona` for one that the catalog lacks."""
    by_name = {model.name: model for model in catalog.gpus}
    try:
        return tuple(by_name[name] for name in persona.models)
    except KeyError as error:
        raise UnknownPersona(f"{persona.name}: the catalog has no GPU model {error}") from error
