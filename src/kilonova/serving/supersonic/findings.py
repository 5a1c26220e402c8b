"""What is wrong in a values file, and what one should know of its conversion."""

from dataclasses import dataclass, field


class ValuesError(Exception):
    """Values that cannot be converted: each problem names the key, the reason and the fix."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(slots=True)
class Findings:
    """Collects problems and warnings, so that all are reported at once."""

    problems: list[str] = field(default_factory=list[str])
    warnings: list[str] = field(default_factory=list[str])

    def refuse(self, key: str, reason: str) -> None:
        """A value that ends the conversion."""
        self.problems.append(f"{key}: {reason}")

    def warn(self, key: str, reason: str) -> None:
        """A value that has another effect than one might expect."""
        self.warnings.append(f"{key}: {reason}")

    def raise_problems(self) -> None:
        """`ValuesError` if there is any problem."""
        if self.problems:
            raise ValuesError(tuple(self.problems))
