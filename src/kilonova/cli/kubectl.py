"""`kubectl kilonova`: the same commands as a plug-in of kubectl.

kubectl runs `kubectl-kilonova` with what follows the name, and for completion
`kubectl_complete-kilonova` with the words so far, the last one to be completed. Both must be on the
PATH, where the package puts them.
"""

import os
import shlex
import sys
from contextlib import redirect_stdout, suppress
from io import StringIO
from typing import Any

from typer.core import TyperGroup
from typer.main import get_command

PROGRAM = "kubectl kilonova"

_NO_FILES = 4
"""What a completion of kubectl ends with so that names of files are not offered as well."""


def main() -> None:
    """Run the command line of this process, as kubectl's."""
    from kilonova.cli import commands

    command = get_command(commands.app)
    _name_as_plugin(command)
    commands.main(command, PROGRAM)


def complete() -> None:
    """Print how the last of the words of this process could go on, as kubectl wants it."""
    from kilonova.cli.commands import app

    words = sys.argv[1:]
    os.environ |= {
        "_KILONOVA_COMPLETE": "complete_bash",
        "COMP_WORDS": shlex.join(["kilonova", *words]),
        "COMP_CWORD": str(len(words)),
    }
    said = StringIO()
    with redirect_stdout(said), suppress(SystemExit):
        app(prog_name="kilonova")
    print(*said.getvalue().split(), f":{_NO_FILES}", sep="\n")


def _name_as_plugin(command: Any) -> None:
    """Let examples say what is typed here."""
    command.help = (command.help or "").replace("  kilonova ", f"  {PROGRAM} ")
    if isinstance(command, TyperGroup):
        for each in command.commands.values():
            _name_as_plugin(each)
