"""What a search may cost. Steps are counted, not seconds: the same cluster gets the same answer."""


class SearchBudget:
    """So many steps of a search, and whether they were too few."""

    def __init__(self, steps: int) -> None:
        self._left = steps
        self.exceeded = False
        """Whether a step was refused: what was not found may be there all the same."""

    @property
    def spent(self) -> bool:
        """Whether nothing is left."""
        return self._left <= 0

    def spend(self, steps: int = 1) -> bool:
        """Pays for steps; False if they are not left. Nothing is left then for cheaper ones either:
        what costs little at a time would go on for long."""
        if self._left < steps:
            self._left = 0
            self.exceeded = True
            return False
        self._left -= steps
        return True
