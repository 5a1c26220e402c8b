"""Errors of builds: where, what is wrong, and how to fix it."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(eq=False)
class BuildError(Exception):
    """A build that cannot be used.

    `where` names the source and the build, and the field if the error is about one.
    """

    reason: ClassVar[str] = "BuildError"
    """The reason of a condition."""

    where: str
    problem: str
    fix: str = ""

    def __post_init__(self) -> None:
        super().__init__(str(self))

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}" + (f"; {self.fix}" if self.fix else "")


class InvalidBuild(BuildError):
    """The build is damaged, or says what cannot be. It stays so until it is published again."""

    reason = "InvalidBuild"


class BuildNotFound(BuildError):
    """The source has no such build."""

    reason = "BuildNotFound"


class BuildUnavailable(BuildError):
    """The source does not answer, or rejects the credentials: it may succeed later."""

    reason = "BuildUnavailable"
