"""What the driver's numbers of a device's architecture mean."""

ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
"""By NVML's number, as the catalog names them."""

_CORES_PER_SM = {(7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64}
_CORES_PER_SM_SINCE = 128
"""From compute capability 8.6 on."""


def count_sms(cores: int | None, capability: tuple[int, int] | None) -> int | None:
    """The streaming multiprocessors of a device with so many CUDA cores."""
    if not cores or capability is None:
        return None
    return cores // _CORES_PER_SM.get(capability, _CORES_PER_SM_SINCE)
