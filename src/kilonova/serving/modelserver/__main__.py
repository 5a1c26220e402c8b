"""`python -m kilonova.serving.modelserver`: `kilonova serve-model` without the other commands. It
takes less memory."""

import sys

import typer

from kilonova.component.failure import CommandFailed
from kilonova.serving.commands.serve_model import serve_model

if __name__ == "__main__":
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(serve_model)
    try:
        app(prog_name="kilonova serve-model")
    except CommandFailed as failure:
        print(f"kilonova: {failure}", file=sys.stderr)
        raise SystemExit(failure.code) from None
