"""`kilonova version`."""

import typer


def version() -> None:
    """Print the version.

    \b
    Example:
      kilonova version
    """
    from kilonova import __version__

    typer.echo(f"kilonova {__version__}")
