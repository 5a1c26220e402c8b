"""The process that `kilonova up --detach` leaves behind: options, and a pipe to report to.

It is not given a command line as people type it: to read one takes a tenth of a second, and
memory for as long as the cluster runs.
"""

import sys

from kilonova.cli.audience import Pipe
from kilonova.cli.failure import CommandFailed
from kilonova.cli.foreground import run_cluster
from kilonova.cli.options import UpOptions


def main() -> None:
    """Run the cluster until it is asked to stop."""
    options, reports_to = sys.argv[1:]
    try:
        run_cluster(UpOptions.read(options), Pipe(int(reports_to)))
    except CommandFailed as failure:
        print(f"kilonova: {failure}", file=sys.stderr)
        sys.exit(failure.code)


if __name__ == "__main__":
    main()
