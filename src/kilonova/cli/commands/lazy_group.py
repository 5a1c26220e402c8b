"""A group of commands whose code is imported when it is needed.

A command line runs one command: importing the modules and building the parsers of all others would
take a fifth of its start.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

from kilonova.cli.commands.component_flags import expand_component_flags

CommandLoader = Callable[[], "Callable[..., Any] | typer.Typer"]
"""Imports a command: a Typer function, or an app with subcommands."""


class LazyGroup(TyperGroup):
    """A group that imports a command when it is chosen."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = cast(Any, _LazyCommands(self.find_commands()))

    def find_commands(self) -> Mapping[str, CommandLoader]:
        """The commands by name, in the order of the help text."""
        raise NotImplementedError


class _LazyCommands(Mapping[str, Any]):
    """Commands by name, each imported and built at its first use."""

    def __init__(self, loaders: Mapping[str, CommandLoader]) -> None:
        self._loaders = loaders
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = _build_command(self._loaders[name]())
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaders)

    def __len__(self) -> int:
        return len(self._loaders)


def _build_command(found: Callable[..., Any] | typer.Typer) -> Any:
    if not isinstance(found, typer.Typer):
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command()(expand_component_flags(found))
        found = app
    return get_command(found)
