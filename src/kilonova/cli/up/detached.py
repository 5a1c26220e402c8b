"""The background process of `kilonova up --detach`.

Its arguments are the options as JSON, the descriptor of the pipe to report to, and if it is to end
with another process, that of a pipe whose other end that process has. It does not parse
a command line: importing Typer takes a tenth of a second, and memory while the cluster runs.
"""

import sys

from kilonova.cli.up.foreground import run_cluster
from kilonova.cli.up.options import UpOptions
from kilonova.cli.up.reporter import PipeReporter
from kilonova.component.failure import CommandFailed


def main() -> None:
    """Run the cluster until it is stopped."""
    options, report_fd, *others = sys.argv[1:]
    lifeline = int(others[0]) if others else None
    try:
        run_cluster(UpOptions.from_json(options), PipeReporter(int(report_fd)), lifeline)
    except CommandFailed as failure:
        print(f"kilonova: {failure}", file=sys.stderr)
        sys.exit(failure.code)


if __name__ == "__main__":
    main()
