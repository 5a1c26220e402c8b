"""The command `kilonova gpu` and its subcommands."""

import typer

from kilonova.gpu.commands.advise import advise
from kilonova.gpu.commands.discover import discover
from kilonova.gpu.commands.health import health
from kilonova.gpu.commands.list import list_gpus
from kilonova.gpu.commands.mig import app as mig
from kilonova.gpu.commands.slices import list_slices
from kilonova.gpu.commands.topology import topology

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def gpu() -> None:
    """Show the GPUs of a cluster, and of this machine.

    \b
    Examples:
      kilonova gpu list
      kilonova gpu slices
      kilonova gpu discover
      kilonova gpu topology --backend simulated:h100
      kilonova gpu advise --memory 10Gi --compute 10
      kilonova gpu mig export
    """


app.command("list")(list_gpus)
app.command("slices")(list_slices)
app.command("discover")(discover)
app.command("topology")(topology)
app.command("health")(health)
app.command("advise")(advise)
app.add_typer(mig, name="mig")
