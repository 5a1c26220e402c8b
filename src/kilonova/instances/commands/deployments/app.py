"""The command `kilonova instances` and its subcommands."""

import typer

from kilonova.instances.commands.deployments.history import history
from kilonova.instances.commands.deployments.list import list_instances
from kilonova.instances.commands.deployments.rollback import rollback
from kilonova.instances.commands.deployments.status import status

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def instances() -> None:
    """Show instances of models, and roll deployments back.

    \b
    Examples:
      kilonova instances list -A
      kilonova instances status
      kilonova instances history llama
      kilonova instances rollback llama --to-release llama-2026-11
    """


app.command("list")(list_instances)
app.command("status")(status)
app.command("history")(history)
app.command("rollback")(rollback)
