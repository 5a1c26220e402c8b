"""The root command."""

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from kilonova.cli.commands.lazy_group import CommandLoader, LazyGroup
from kilonova.component import find_components
from kilonova.component.failure import FAILED, CommandFailed
from kilonova.component.references import BrokenReference, load_reference
from kilonova.component.registry import InvalidRegistration

_EXIT_CODES = """\
\b
Exit codes:
    0  success
    1  failure; one line on standard error has the reason
    2  wrong usage
    3  `status`: no cluster is running
    7  `run operator --mnnvl`: the cluster has no ComputeDomains
  130  interrupted by Ctrl-C
"""

_COMMANDS = {
    "up": "cluster:up",
    "down": "cluster:down",
    "status": "cluster:status",
    "install": "install:install",
    "run": "run.app:app",
    "doctor": "doctor:doctor",
    "version": "version:version",
    "completion": "completion:completion",
    "top": "top:top",
    "nodes": "lists.nodes:nodes",
    "catalog": "catalog:app",
}
"""The commands that belong to no component, by reference, in the order of the help text."""


class _RootGroup(LazyGroup):
    def find_commands(self) -> Mapping[str, CommandLoader]:
        own = {name: f"kilonova.cli.commands.{each}" for name, each in _COMMANDS.items()}
        contributed = {
            command.name: command.reference
            for component in find_components()
            for command in component.commands
        }
        return {
            name: partial(load_reference, reference)
            for name, reference in (own | contributed).items()
        }


# Rich help texts would cost another 200 ms.
app = typer.Typer(
    cls=_RootGroup,
    help="Kilonova: AI workloads on GPU clusters, end to end.",
    epilog=_EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        from kilonova.cli.commands.version import version

        version()
        raise typer.Exit


@app.callback()
def kilonova(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
    catalog: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="KILONOVA_CATALOG",
            help="Own GPU models, machine types and prices.",
            dir_okay=False,
        ),
    ] = None,
) -> None:
    """Kilonova: AI workloads on GPU clusters, end to end."""
    if catalog is not None:
        _use_catalog(catalog)


def _use_catalog(file: Path) -> None:
    """Read the override file, for this process and those that it starts."""
    from kilonova.catalog import OVERRIDE_VARIABLE, OverrideError, read_catalog

    path = str(file.expanduser().absolute())
    try:
        read_catalog(path)
    except OverrideError as error:
        raise CommandFailed(str(error)) from None
    os.environ[OVERRIDE_VARIABLE] = path


def main(command: Callable[..., object] = app, program: str = "kilonova") -> None:
    """Parse and run the command line of this process."""
    try:
        command(prog_name=program)
    except CommandFailed as failure:
        _exit_with_error(str(failure), failure.code)
    except (BrokenReference, InvalidRegistration) as error:
        _exit_with_error(str(error), FAILED)
    except PermissionError as error:
        if error.filename is None:
            raise
        _exit_with_error(f"{error.filename}: {error.strerror}", FAILED)


def _exit_with_error(message: str, code: int) -> NoReturn:
    typer.echo(f"kilonova: {message}", err=True)
    sys.exit(code)
