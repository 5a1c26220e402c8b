"""Why the spec of a workload is invalid."""


class InvalidSpec(ValueError):
    """A field of the spec that is invalid: field, problem, and how to fix it."""

    def __init__(self, reason: str, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.reason = reason
        """The reason of the condition."""
        self.field = field
