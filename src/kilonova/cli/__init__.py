"""The command line: `kilonova …`, and `kubectl kilonova …` as a kubectl plugin.

`commands` holds the Typer functions: flags, help texts and exit codes. It imports nothing heavy, so
that a command starts fast; it imports its implementation when it runs:

- `up`: the embedded cluster of this machine; start, status, down, wipe
- `install`: the CustomResourceDefinitions
- `doctor`, `lists`, `top`, `why`, `plan`, `snapshot`: commands that only read a cluster

Components register further commands and processes. `kilonova.component` has what commands share:
flags, selection of a cluster, output.

Expected failures are `CommandFailed`: one line on standard error and an exit code, never a
traceback. The entry point is `main`.
"""


def main() -> None:
    """Parse and run the command line of this process."""
    try:
        from kilonova.cli.root_help import print_root_help

        if not print_root_help():
            from kilonova.cli.commands.app import main

            main()
    except KeyboardInterrupt:
        # Ctrl-C may come while modules are still being imported.
        raise SystemExit(130) from None
