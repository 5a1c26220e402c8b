"""`kilonova completion`: completion scripts for shells."""

from typing import Annotated, Literal

import typer


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="The shell.")],
) -> None:
    """Print the completion script of a shell.

    It completes commands, options, and names of objects in the cluster. `kilonova
    --install-completion` installs it for the current shell.

    \b
    Examples:
      kilonova completion bash > ~/.local/share/bash-completion/completions/kilonova
      source <(kilonova completion zsh)
      kilonova completion fish > ~/.config/fish/completions/kilonova.fish
    """
    # Not documented as public, but present in every Typer version so far.
    from typer.completion import (
        get_completion_script,  # pyright: ignore[reportPrivateImportUsage]
    )

    script = get_completion_script(
        prog_name="kilonova", complete_var="_KILONOVA_COMPLETE", shell=shell
    )
    typer.echo(script)
