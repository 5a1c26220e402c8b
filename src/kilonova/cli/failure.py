"""How commands fail: exit codes, and the one exception that stands for them."""

FAILED = 1
USAGE = 2
NOT_RUNNING = 3
NO_COMPUTE_DOMAINS = 7
"""`run operator`: as in Grove."""


class CommandFailed(Exception):
    """An expected failure: the message says what is wrong and what to do about it."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


class WrongUsage(CommandFailed):
    """Options or arguments that nobody can understand, or that do not go together."""

    def __init__(self, message: str) -> None:
        super().__init__(message, USAGE)


def unusable_folder(error: OSError) -> CommandFailed:
    """Of a data folder in which something cannot be made or read."""
    return CommandFailed(
        f"{error.filename}: {error.strerror}: mend that, or choose another folder with --data DIR"
    )
