"""How commands fail: exit codes, and the exceptions that carry them."""

FAILED = 1
WRONG_USAGE = 2
NOT_RUNNING = 3
NO_COMPUTE_DOMAINS = 7
"""Of `run operator`, the same as Grove's."""


class CommandFailed(Exception):
    """An expected failure: the message states what is wrong and how to fix it."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


class WrongUsage(CommandFailed):
    """Invalid options or arguments, or a combination that is not allowed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, WRONG_USAGE)
