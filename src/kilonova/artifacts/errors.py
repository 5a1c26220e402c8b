"""Errors of artifacts: where, what is wrong, and how to fix it."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(eq=False)
class ArtifactError(Exception):
    """A build or a tokenizer that cannot be used.

    `where` names the place and the artifact, and the field or file if the error is about one.
    """

    reason: ClassVar[str] = "ArtifactError"
    """The reason of a condition."""

    where: str
    problem: str
    fix: str = ""

    def __post_init__(self) -> None:
        super().__init__(str(self))

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}" + (f"; {self.fix}" if self.fix else "")
