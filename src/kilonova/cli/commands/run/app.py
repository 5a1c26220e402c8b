"""`kilonova run`: components of Kilonova as processes of their own, on any cluster."""

from collections.abc import Mapping
from functools import partial

import typer

from kilonova.cli.commands.lazy_group import CommandLoader, LazyGroup
from kilonova.component import Component, find_components
from kilonova.component.process.command import build_process_command
from kilonova.component.references import load_reference


class _RunGroup(LazyGroup):
    def find_commands(self) -> Mapping[str, CommandLoader]:
        return {
            each.name: _command_loader(each)
            for each in sorted(find_components(), key=lambda each: each.name)
            if each.process is not None and each.process.name == each.name
        }


def _command_loader(component: Component) -> CommandLoader:
    assert component.process is not None
    if component.process.command:
        return partial(load_reference, component.process.command)
    return partial(build_process_command, component)


app = typer.Typer(cls=_RunGroup, add_completion=False, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def run() -> None:
    """Run a component of Kilonova on a cluster.

    \b
    Example:
      kilonova run operator --kubeconfig ~/.kube/config --webhook-url https://10.0.0.5:9443
    """
