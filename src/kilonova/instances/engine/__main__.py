"""`python -m kilonova.instances.engine`: runs what the variables of a pod specify.

It is `kilonova engine run` without the command line, which takes a quarter of the memory: an
instance has many processes. With arguments it is `kilonova engine`.
"""

import os
import sys

from kilonova.component.failure import CommandFailed


def main() -> None:
    """Run an agent or a conductor; exit with the code of a failed command if it fails."""
    try:
        if len(sys.argv) > 1:
            from kilonova.instances.commands.engine import app

            app(prog_name="kilonova engine")
        else:
            from kilonova.instances.engine.process import run_from_environment

            run_from_environment(os.environ)
    except CommandFailed as failure:
        print(f"kilonova: {failure}", file=sys.stderr)
        raise SystemExit(failure.code) from None


if __name__ == "__main__":
    main()
