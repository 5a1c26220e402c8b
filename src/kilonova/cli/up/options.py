"""The options of `kilonova up`, and the default data directory."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from kilonova.component import FlagValue
from kilonova.component.command.data_directory import DATA_VARIABLE
from kilonova.component.failure import CommandFailed, WrongUsage

DEFAULT_PORT = 7443
BUILT_IN_FLEETS = ("small", "large")
"""Fleets that need no file; the first is the default."""

Durability = Literal["full", "normal"]


@dataclass(frozen=True, slots=True)
class UpOptions:
    """The options of a start. Paths are absolute, so that they are valid in any process."""

    data: Path
    host: str
    port: int
    durability: Durability
    demo: bool
    controllers: str = "*"
    components: tuple[str, ...] = ()
    """The names of the components to run."""
    flags: Mapping[str, FlagValue] = field(default_factory=dict[str, FlagValue])
    """The flags of components, by name."""
    name: str = ""
    """The name of the cluster, where there are several."""
    index: int = 0
    """Its position among them: each has its own range of addresses for Services."""

    @property
    def fleet(self) -> str | None:
        """The name of a built-in fleet, or the path of a fleet file; None for no simulated nodes.

        Without a demo, there are simulated nodes only if they were asked for.
        """
        if "nodes" not in self.components:
            return None
        named = self.flags.get("nodes")
        return str(named) if named else BUILT_IN_FLEETS[0] if self.demo else None

    @property
    def host_paths(self) -> tuple[Path, ...]:
        """The paths that pods of the process node may mount."""
        named = self.flags.get("allow-host-path")
        return tuple(map(Path, named)) if isinstance(named, tuple) else ()

    @property
    def images(self) -> Path | None:
        """The file that specifies how images are run on the process node, if there is one."""
        named = self.flags.get("images")
        return Path(str(named)) if named else None

    def to_json(self) -> str:
        """The options as JSON, for another process."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> "UpOptions":
        """The options of `to_json`."""
        import msgspec

        return msgspec.json.decode(text, type=cls, dec_hook=lambda type, value: type(value))


def complete_fleets(incomplete: str) -> list[str]:
    """Names of fleets and files with this prefix, for shell completion."""
    from glob import escape, glob

    names = [each for each in BUILT_IN_FLEETS if each.startswith(incomplete)]
    return [*names, *sorted(glob(f"{escape(incomplete)}*"))]


def resolve_fleet(typed: str) -> str:
    """The name of a built-in fleet, or the absolute path of a fleet file, for --nodes."""
    return typed if typed in BUILT_IN_FLEETS else str(Path(typed).expanduser().absolute())


def resolve_host_path(typed: str) -> str:
    """A path of --allow-host-path; `WrongUsage` if it is relative or does not exist."""
    flag = f"--allow-host-path {Path(typed)}"
    path = Path(os.path.expanduser(typed))
    if not path.is_absolute():
        raise WrongUsage(f"{flag} is a relative path: write {os.path.abspath(path)}")
    if not path.exists():
        raise WrongUsage(f"{flag} does not exist: create it, or use another")
    return str(path)


def resolve_image_table(typed: str) -> str:
    """The absolute path of a file for --images; `WrongUsage` if it is invalid."""
    from kilonova.local.processnode.images import ImageTableError, load_image_table

    path = Path(typed).expanduser().absolute()
    try:
        load_image_table(path)
    except ImageTableError as error:
        raise WrongUsage(f"--images {error}") from None
    return str(path)


def command_line_for(data: Path, command: str) -> str:
    """A command line that the user can type for the cluster of `data`."""
    flag = [] if _is_default_data_directory(data) else ["--data", str(data)]
    return shlex.join([program_name(), command, *flag])


def program_name() -> str:
    """The name or path by which the user can run this program."""
    program = Path(sys.argv[0])
    if shutil.which("kilonova") or program.name != "kilonova":
        return "kilonova"
    if program.is_relative_to(Path.cwd()):
        return str(program.relative_to(Path.cwd()))
    return str(program)


def _is_default_data_directory(data: Path) -> bool:
    from kilonova.component.command.cluster_selection import resolve_data_directory

    named = os.environ.get(DATA_VARIABLE)
    return data == resolve_data_directory(Path(named) if named else None)


def data_directory_error(error: OSError) -> CommandFailed:
    """The failure to create or read a file in a data directory."""
    return CommandFailed(
        f"{error.filename}: {error.strerror}: fix that, or choose another directory with --data DIR"
    )
