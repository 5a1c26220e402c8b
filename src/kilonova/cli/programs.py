"""Commands that are programs of their own: `kubectl fit`, `alloc`.

They are the commands `kilonova fit` and `kilonova alloc` under another name; kubectl runs
`kubectl-fit`, and for completion `kubectl_complete-fit` (see `kilonova.cli.kubectl`).
"""

import sys
from typing import Any

from typer.main import get_command


def fit() -> None:
    """Run `kilonova fit` as a plugin of kubectl."""
    _run_command("fit", "kubectl fit")


def complete_fit() -> None:
    """Print completions of the last argument of `kubectl fit`."""
    from kilonova.cli.kubectl import complete

    sys.argv[1:1] = ["fit"]
    complete()


def alloc() -> None:
    """Run `kilonova alloc`."""
    _run_command("alloc", "alloc")


def _run_command(name: str, program: str) -> None:
    try:
        from kilonova.cli.commands import app
        from kilonova.cli.kubectl import rewrite_examples

        root: Any = get_command(app.app)
        command = root.commands[name]
        rewrite_examples(command, f"kilonova {name}", program)
        app.main(command, program)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
