"""The command `kilonova gpu` and its subcommands."""

import typer

from kilonova.gpu.commands.list import list_gpus
from kilonova.gpu.commands.slices import list_slices

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def gpu() -> None:
    """Show the GPUs of a cluster, and of this machine.

    \b
    Examples:
      kilonova gpu list
      kilonova gpu slices
    """


app.command("list")(list_gpus)
app.command("slices")(list_slices)
