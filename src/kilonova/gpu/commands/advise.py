"""`kilonova gpu advise`: a GPU of its own, MIG, MPS or time-slicing, and why."""

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from kilonova.component.command.flags import Output
from kilonova.component.failure import CommandFailed, WrongUsage

if TYPE_CHECKING:
    from kilonova.gpu.sharing.ladder import RejectedRung, RungChoice

_MIB = 1 << 20
_ISOLATIONS = ("none", "memory", "full")


class Requested(msgspec.Struct, frozen=True):
    """A resource, or an annotation, of a pod."""

    name: str
    value: str


class Advice(msgspec.Struct, frozen=True, rename="camel"):
    """How a request should get a part of a GPU."""

    model: str
    rung: str
    """`Exclusive`, `MIG`, `MPS` or `TimeSlice`."""
    reason: str
    profile: str
    """The MIG profile, on that rung."""
    requests: tuple[Requested, ...]
    """What a pod requests for it."""
    rejected: "tuple[RejectedRung, ...]"
    """Why the rungs above were not taken."""


def advise(
    memory: Annotated[
        str, typer.Option(metavar="QUANTITY", help="GPU memory that is needed, such as 10Gi.")
    ],
    model: Annotated[
        str, typer.Option(metavar="NAME", help="A GPU model of the catalog, such as H100-80GB.")
    ] = "H100",
    compute: Annotated[
        int, typer.Option(metavar="PERCENT", min=0, max=100, help="Part of its multiprocessors.")
    ] = 0,
    isolation: Annotated[
        str,
        typer.Option(
            metavar="none|memory|full",
            help="What others must not reach: its memory; or neither its memory nor its bandwidth, "
            "and no error of others.",
        ),
    ] = "none",
    mps: Annotated[bool, typer.Option("--mps/--no-mps", help="Whether the nodes have MPS.")] = True,
    output: Output = "table",
) -> None:
    """Say how a workload that needs a part of a GPU should get it: MIG, MPS, time-slicing, or a
    GPU of its own; why, and what its pod requests for that.

    Sizes are compared in memory and multiprocessors, on an idle GPU.

    \b
    Examples:
      kilonova gpu advise --memory 10Gi --compute 10
      kilonova gpu advise --memory 4Gi --compute 20 --model L40S --isolation memory
      kilonova gpu advise --memory 2Gi --model H200 -o json
    """
    from kilonova.component.command.output.formats import encode_as

    advice = find_advice(model, _parse_memory(memory), compute, isolation, has_mps=mps)
    if output != "table":
        typer.echo(encode_as(advice, output))
        return
    typer.echo(f"{advice.rung} on {advice.model}: {advice.reason}")
    for each in advice.requests:
        typer.echo(f'  request {each.name}: "{each.value}"')
    for each in advice.rejected:
        typer.echo(f"  not {each.rung}: {each.reason}")


def find_advice(
    model: str, memory_mib: int, compute: int, isolation: str, *, has_mps: bool = True
) -> Advice:
    """The advice for an idle GPU of a model. `WrongUsage`, or `CommandFailed` if nothing fits."""
    from kilonova.catalog import load_catalog
    from kilonova.catalog.mig import geometry_named
    from kilonova.gpu.sharing.ladder import Isolation, SharingDevice, SharingRequest, choose_rung

    if isolation not in _ISOLATIONS:
        raise WrongUsage(f"--isolation {isolation}: expected {', '.join(_ISOLATIONS)}")
    found = load_catalog().find_gpu(model)
    if found is None:
        raise WrongUsage(f"--model {model}: no GPU of the catalog; see `kilonova catalog gpus`")
    device = SharingDevice(
        found.memory, geometry_named(found.mig), found.capability, has_mps=has_mps
    )
    request = SharingRequest(memory_mib, compute / 100, Isolation(isolation.capitalize()))
    choice = choose_rung(request, device)
    if choice.rung is None:
        raise CommandFailed(f"no part of {found.name} is enough: {choice.reason}")
    return Advice(
        found.name,
        choice.rung.value,
        choice.reason,
        choice.profile,
        _list_requests(choice, request.compute, memory_mib, found.memory),
        choice.rejected,
    )


def _list_requests(
    choice: "RungChoice", compute: float, memory_mib: int, device_mib: int
) -> tuple[Requested, ...]:
    from kilonova.api.gpu.annotations import MEMORY, MILLI
    from kilonova.catalog.resource_names import mig_resource
    from kilonova.gpu.sharing.ladder import Rung
    from kilonova.scheduler.core.model.node_table import GPU

    match choice.rung:
        case Rung.EXCLUSIVE:
            return (Requested(GPU, "1"),)
        case Rung.MIG:
            return (Requested(mig_resource(choice.profile), "1"),)
        case _:
            milli = round(1000 * (compute or memory_mib / device_mib))
            return Requested(MILLI, str(max(milli, 1))), Requested(MEMORY, str(memory_mib))


def _parse_memory(text: str) -> int:
    from kilonova.api.quantity import QuantityError, parse_quantity

    try:
        size = int(parse_quantity(text).value) // _MIB
    except QuantityError as error:
        raise WrongUsage(f"--memory {text}: {error}") from error
    if size < 1:
        raise WrongUsage(f"--memory {text}: less than 1Mi; write 10Gi for ten gibibytes")
    return size
