"""`kilonova completion`: what a shell reads to complete commands and names."""

from typing import Annotated, Literal

import typer


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="Whose script.")],
) -> None:
    """Print the script by which a shell completes what is typed.

    Commands, options, and names of things in the cluster. `kilonova --install-completion` writes it
    where the shell finds it.

    \b
    Examples:
      kilonova completion bash > ~/.local/share/bash-completion/completions/kilonova
      source <(kilonova completion zsh)
      kilonova completion fish > ~/.config/fish/completions/kilonova.fish
    """
    # Not said to be public, and in every version there has been.
    from typer.completion import (
        get_completion_script,  # pyright: ignore[reportPrivateImportUsage]
    )

    script = get_completion_script(
        prog_name="kilonova", complete_var="_KILONOVA_COMPLETE", shell=shell
    )
    typer.echo(script)
