"""Flags that commands of inference services share."""

from typing import Annotated

import typer

from kilonova.serving.commands.name_completion import complete_services

ServiceName = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The inference service.", autocompletion=complete_services),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Let the cluster check the change, and print it.")
]
