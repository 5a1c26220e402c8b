"""What `kilonova up` was asked for, and where clusters live unless told otherwise."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

DATA_VARIABLE = "KILONOVA_DATA_DIR"
PORT = 7443

Durability = Literal["full", "normal"]


@dataclass(frozen=True, slots=True)
class UpOptions:
    """A cluster to start. Paths are absolute, so that they mean the same in any process."""

    data: Path
    host: str
    port: int
    durability: Durability
    nodes: Path | None
    demo: bool
    controllers: str = "*"
    process_node: bool = True
    allowed_host_paths: tuple[Path, ...] = ()
    operator: bool = True
    scheduler: bool = True

    def written(self) -> str:
        """The same as text, for another process."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def read(cls, text: str) -> "UpOptions":
        """Options that were `written`."""
        import msgspec

        return msgspec.json.decode(text, type=cls, dec_hook=lambda type, value: type(value))


def default_data(environment: Mapping[str, str] = os.environ) -> Path:
    """`kilonova/default` in the user's data folder, after the XDG convention."""
    share = environment.get("XDG_DATA_HOME")
    return Path(share or Path.home() / ".local" / "share") / "kilonova" / "default"


def command_on(data: Path, command: str) -> str:
    """A command as the user can type it here, for the cluster on `data`."""
    program = Path(sys.argv[0])
    if shutil.which("kilonova") or program.name != "kilonova":
        typed = "kilonova"
    elif program.is_relative_to(Path.cwd()):
        typed = str(program.relative_to(Path.cwd()))
    else:
        typed = str(program)
    folder = [] if _is_meant_by_default(data) else ["--data", str(data)]
    return shlex.join([typed, command, *folder])


def _is_meant_by_default(data: Path) -> bool:
    named = os.environ.get(DATA_VARIABLE)
    return data == (Path(named).expanduser().absolute() if named else default_data().absolute())
