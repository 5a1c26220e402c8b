"""What `kilonova up` was asked for, and where clusters live unless told otherwise."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from kilonova.cli.failure import WrongUsage

DATA_VARIABLE = "KILONOVA_DATA_DIR"
PORT = 7443
FLEETS = ("small", "large")
"""Fleets that need no file; the first is the usual one."""

Durability = Literal["full", "normal"]


@dataclass(frozen=True, slots=True)
class UpOptions:
    """A cluster to start. Paths are absolute, so that they mean the same in any process."""

    data: Path
    host: str
    port: int
    durability: Durability
    nodes: str | None
    """What a fleet is called, or the path of its file; None: no simulated nodes."""
    demo: bool
    controllers: str = "*"
    process_node: bool = True
    allowed_host_paths: tuple[Path, ...] = ()
    operator: bool = True
    scheduler: bool = True
    console: bool = True
    console_host: str = "127.0.0.1"
    console_port: int | None = None
    """None: the one after the API's, or any other that is free."""
    allow_actions: bool = False

    def written(self) -> str:
        """The same as text, for another process."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def read(cls, text: str) -> "UpOptions":
        """Options that were `written`."""
        import msgspec

        return msgspec.json.decode(text, type=cls, dec_hook=lambda type, value: type(value))


def fleet_names(incomplete: str) -> list[str]:
    """Fleets and files that begin so, for the shell to offer."""
    from glob import escape, glob

    names = [each for each in FLEETS if each.startswith(incomplete)]
    return [*names, *sorted(glob(f"{escape(incomplete)}*"))]


def host_paths(typed: Sequence[Path]) -> tuple[Path, ...]:
    """What --allow-host-path names; `CommandFailed` for a path of which pods could see nothing."""
    return tuple(map(_host_path, typed))


def _host_path(typed: Path) -> Path:
    path = Path(os.path.expanduser(typed))
    if not path.is_absolute():
        absolute = os.path.abspath(path)
        raise WrongUsage(f"--allow-host-path {typed} is a relative path: write {absolute}")
    if not path.exists():
        raise WrongUsage(f"--allow-host-path {typed} does not exist: make it, or name another")
    return path


def default_data(environment: Mapping[str, str] = os.environ) -> Path:
    """`kilonova/default` in the user's data folder, after the XDG convention."""
    share = environment.get("XDG_DATA_HOME")
    return Path(share or Path.home() / ".local" / "share") / "kilonova" / "default"


def command_on(data: Path, command: str) -> str:
    """A command as the user can type it here, for the cluster on `data`."""
    folder = [] if _is_meant_by_default(data) else ["--data", str(data)]
    return shlex.join([program(), command, *folder])


def program() -> str:
    """Our own name as the user can type it here."""
    program = Path(sys.argv[0])
    if shutil.which("kilonova") or program.name != "kilonova":
        return "kilonova"
    if program.is_relative_to(Path.cwd()):
        return str(program.relative_to(Path.cwd()))
    return str(program)


def _is_meant_by_default(data: Path) -> bool:
    from kilonova.cli.clusters import folder_meant

    named = os.environ.get(DATA_VARIABLE)
    return data == folder_meant(Path(named) if named else None)
