"""The command line: clusters on this machine, parts that run on any, and commands that look.

A command line is read here and nowhere else; what a command does is in a module of its own,
imported when that command runs, so that `kilonova --help` stays quick. Expected failures are
`CommandFailed`: one line on standard error and an exit code, never a traceback.
"""


def main() -> None:
    """Run the command line of this process."""
    try:
        from kilonova.cli.commands import main

        main()
    except KeyboardInterrupt:
        # Also before a command has begun.
        raise SystemExit(130) from None
