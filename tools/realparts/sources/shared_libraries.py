"""Wrappers of programs that need shared libraries of their part."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Wrapper:
    """A script that runs a program of its part with that part's libraries."""

    path: str
    """Relative to the folder of the part."""
    program: str
    libraries: Sequence[str]
    """Folders of libraries, the first one first; relative to the part unless they are absolute."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """In terms of the shell: `$part` is the folder of the part."""
    arguments: str = ""
    """Put before those of the user, in terms of the shell."""

    def write(self, folder: Path) -> None:
        """Write the script into the folder of a part."""
        path = folder / self.path
        path.parent.mkdir(exist_ok=True)
        path.write_text(self.format())
        path.chmod(0o755)

    def format(self) -> str:
        """The text of the script. It finds its part through links, and where that was moved."""
        up = "/".join([".."] * self.path.count("/")) or "."
        libraries = ":".join(
            shlex.quote(each) if each.startswith("/") else f'"$part/{each}"'
            for each in self.libraries
        )
        words = filter(None, ("exec", f'"$part/{self.program}"', self.arguments, '"$@"'))
        lines = (
            "#!/bin/sh",
            f'part=$(cd "$(dirname "$(readlink -f "$0")")/{up}" && pwd)',
            f"export LD_LIBRARY_PATH={libraries}",
            *(f'export {name}="{value}"' for name, value in self.environment.items()),
            " ".join(words),
        )
        return "".join(f"{line}\n" for line in lines)
