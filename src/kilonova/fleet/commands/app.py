"""The command `kilonova fleet` and its subcommands."""

import typer

from kilonova.fleet.commands.clusters import clusters
from kilonova.fleet.commands.endpoint import app as endpoint
from kilonova.fleet.commands.releases import mask, rollback, unmask
from kilonova.fleet.commands.scheduling import cordon, evacuate, uncordon
from kilonova.fleet.commands.status import status

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def fleet() -> None:
    """Show and steer the clusters of a fleet, on its hub.

    \b
    Examples:
      kilonova fleet clusters
      kilonova fleet status
      kilonova fleet evacuate eu-1
      kilonova fleet rollback llama
    """


app.command("clusters")(clusters)
app.command("status")(status)
app.command("cordon")(cordon)
app.command("uncordon")(uncordon)
app.command("evacuate")(evacuate)
app.command("rollback")(rollback)
app.command("mask")(mask)
app.command("unmask")(unmask)
app.add_typer(endpoint, name="endpoint")
