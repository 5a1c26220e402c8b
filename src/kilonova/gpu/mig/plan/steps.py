"""The steps by which a device is sliced: each is one call of the backend, and one journal entry."""

from typing import TypeAlias, assert_never

import msgspec

from kilonova.catalog.mig import Slot


class EnableMode(msgspec.Struct, frozen=True, tag="enable"):
    """Switch the MIG mode of a device on."""

    device: str


class DisableMode(msgspec.Struct, frozen=True, tag="disable"):
    """Switch the MIG mode of a device off; it has no instances then."""

    device: str


class ResetDevice(msgspec.Struct, frozen=True, tag="reset"):
    """Reset a device, so that its new MIG mode counts."""

    device: str


class DestroyInstance(msgspec.Struct, frozen=True, tag="destroy"):
    """Destroy an instance that nothing uses."""

    device: str
    uuid: str
    slot: Slot


class CreateInstance(msgspec.Struct, frozen=True, tag="create"):
    """Create an instance, for a holder or for stock."""

    device: str
    slot: Slot
    holder: str = ""


Step: TypeAlias = EnableMode | DisableMode | ResetDevice | DestroyInstance | CreateInstance


def operation_name(step: Step) -> str:
    """The operation of a step, as in statistics and metrics: `create`."""
    match step:
        case EnableMode():
            return "enable"
        case DisableMode():
            return "disable"
        case ResetDevice():
            return "reset"
        case DestroyInstance():
            return "destroy"
        case CreateInstance():
            return "create"
        case _:
            assert_never(step)


def describe_step(step: Step) -> str:
    """The step in words: `create 1g.10gb@3 on GPU-1`."""
    match step:
        case EnableMode():
            return f"enable MIG mode on {step.device}"
        case DisableMode():
            return f"disable MIG mode on {step.device}"
        case ResetDevice():
            return f"reset {step.device}"
        case DestroyInstance():
            return f"destroy {step.slot} on {step.device}"
        case CreateInstance():
            holder = f" for {step.holder}" if step.holder else ""
            return f"create {step.slot} on {step.device}{holder}"
        case _:
            assert_never(step)
