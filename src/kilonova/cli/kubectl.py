"""`kubectl kilonova`: the same commands as a kubectl plugin.

kubectl runs `kubectl-kilonova` with the arguments after the plugin's name, and for completion
`kubectl_complete-kilonova` with the words typed so far, the last one to be completed. Both are
scripts of the package and must be on the PATH.
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

_NO_FILE_COMPLETION = 4
"""cobra's ShellCompDirectiveNoFileComp."""


def main() -> None:
    """Parse and run the command line of this process as a kubectl plugin."""
    from kilonova.cli.commands import app as commands

    command = get_command(commands.app)
    rewrite_examples(command, "kilonova", PROGRAM)
    commands.main(command, PROGRAM)


def complete() -> None:
    """Print completions of the last argument in the format that kubectl expects."""
    from kilonova.cli.commands.app import app

    words = sys.argv[1:]
    os.environ |= {
        "_KILONOVA_COMPLETE": "complete_bash",
        "COMP_WORDS": shlex.join(["kilonova", *words]),
        "COMP_CWORD": str(len(words)),
    }
    output = StringIO()
    with redirect_stdout(output), suppress(SystemExit):
        app(prog_name="kilonova")
    print(*output.getvalue().split(), f":{_NO_FILE_COMPLETION}", sep="\n")


def rewrite_examples(command: Any, words: str, program: str) -> None:
    """Show the command line of a plugin, in place of these words, in the examples of help texts."""
    command.help = (command.help or "").replace(f"  {words} ", f"  {program} ")
    command.help = command.help.replace(f"  {words}\n", f"  {program}\n")
    if isinstance(command, TyperGroup):
        for each in command.commands.values():
            rewrite_examples(each, words, program)
