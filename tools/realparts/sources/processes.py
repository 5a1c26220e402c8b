"""Commands that sources run."""

import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.realparts.part import PartUnavailable


def run_command(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run a command with its output on standard error; a failure is `PartUnavailable`."""
    words = list(map(str, command))
    try:
        subprocess.run(
            words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=True
        )
    except FileNotFoundError as failure:
        raise PartUnavailable(f"no `{words[0]}` on the PATH") from failure
    except subprocess.CalledProcessError as failure:
        raise PartUnavailable(
            f"`{shlex.join(words)}` failed with status {failure.returncode}"
        ) from failure
