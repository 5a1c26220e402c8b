"""`kilonova catalog`: GPU models, machine types and prices that Kilonova knows."""

from typing import Annotated

import typer

from kilonova.component.command.flags import Output
from kilonova.component.failure import CommandFailed

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def catalog() -> None:
    """Show known GPU models, machine types and prices.

    Prices are USD per hour; `?` is one that is not known. `kilonova --catalog FILE` adds to them.

    \b
    Examples:
      kilonova catalog gpus
      kilonova catalog slices H100
      kilonova catalog prices -o json
    """


@app.command()
def gpus(output: Output = "table") -> None:
    """List GPU models: memory, multiprocessors, NVLink, MIG, price.

    \b
    Example:
      kilonova catalog gpus
    """
    from kilonova.catalog import load_catalog
    from kilonova.cli.catalog.tables import GPU_HEADER, gpu_row
    from kilonova.component.command.output.formats import encode_as, format_table

    known = load_catalog()
    if output != "table":
        typer.echo(encode_as(known.gpus, output))
        return
    typer.echo(format_table(GPU_HEADER, [gpu_row(known, model) for model in known.gpus]))


@app.command()
def machines(output: Output = "table") -> None:
    """List machine types: CPU, memory, GPUs, network, price.

    \b
    Example:
      kilonova catalog machines -o yaml
    """
    from kilonova.catalog import load_catalog
    from kilonova.cli.catalog.tables import MACHINE_HEADER, machine_row
    from kilonova.component.command.output.formats import encode_as, format_table

    known = load_catalog()
    found = tuple(known.machines.values())
    if output != "table":
        typer.echo(encode_as(found, output))
        return
    typer.echo(format_table(MACHINE_HEADER, [machine_row(known, machine) for machine in found]))


@app.command()
def prices(output: Output = "table") -> None:
    """List stated prices with their provider, region and date.

    \b
    Example:
      kilonova catalog prices
    """
    from kilonova.catalog import load_catalog
    from kilonova.cli.catalog.tables import PRICE_HEADER, list_prices, price_row
    from kilonova.component.command.output.formats import encode_as, format_table

    found = list_prices(load_catalog())
    if output != "table":
        typer.echo(encode_as(found, output))
        return
    typer.echo(format_table(PRICE_HEADER, [price_row(price) for price in found]))


@app.command()
def slices(
    gpu: Annotated[str, typer.Argument(metavar="GPU", help="Model, product name or alias.")],
    output: Output = "table",
) -> None:
    """List the MIG profiles of a GPU model: placements, and what an instance costs.

    An instance costs its share of the GPU: of the multiprocessors or of the memory, whichever is
    larger, unless the override file states its price.

    \b
    Example:
      kilonova catalog slices NVIDIA-H100-80GB-HBM3
    """
    from kilonova.catalog import load_catalog
    from kilonova.cli.catalog.tables import SLICE_HEADER, slice_prices, slice_row
    from kilonova.component.command.output.formats import encode_as, format_table

    known = load_catalog()
    model = known.find_gpu(gpu)
    if model is None:
        raise CommandFailed(f'"{gpu}" is not a known GPU model: see `kilonova catalog gpus`')
    if not model.mig:
        raise CommandFailed(f"{model.name} does not support MIG")
    found = list(slice_prices(known, model))
    if output != "table":
        typer.echo(
            encode_as([{"profile": profile, "price": price} for profile, price in found], output)
        )
        return
    typer.echo(format_table(SLICE_HEADER, [slice_row(*each) for each in found]))
