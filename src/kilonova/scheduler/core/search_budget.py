"""The cost limit of a search. Steps are counted, not seconds: equal clusters get equal results."""


class SearchBudget:
    """A number of steps, and whether a search needed more."""

    def __init__(self, steps: int) -> None:
        self._left = steps
        self.exceeded = False
        """Whether steps were refused: an unsuccessful search was not complete."""

    @property
    def is_spent(self) -> bool:
        return self._left <= 0

    def spend(self, steps: int = 1) -> bool:
        """Spends steps; False if too few remain. The rest is dropped then, so that cheap steps do
        not prolong a search that has already exceeded its budget."""
        if self._left < steps:
            self._left = 0
            self.exceeded = True
            return False
        self._left -= steps
        return True
