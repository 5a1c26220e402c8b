"""What goes wrong in a round that goes on nevertheless."""

from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from kilonova.api.grove.parts import LastError
from kilonova.kube import ApiStatusError, Conflict

T = TypeVar("T")


class Troubles:
    """Refusals of the server in one round, for `lastErrors`."""

    def __init__(self, time: str) -> None:
        self._time = time
        self.found: list[LastError] = []
        self._first: ApiStatusError | None = None

    async def note(self, code: str, work: Coroutine[Any, Any, T]) -> T | None:
        """What the work returns, or None if the server refused some of it.

        A conflict is no trouble: what was read is old, and the round has to begin anew.
        """
        try:
            return await work
        except Conflict:
            raise
        except ApiStatusError as error:
            self.found.append(LastError(code, str(error), self._time))
            self._first = self._first or error
            return None

    def lasting(
        self, known: Iterable[LastError], others: Iterable[LastError] = ()
    ) -> tuple[LastError, ...]:
        """What is wrong, here and with others, each since it was first seen."""
        seen = {(each.code, each.description): each for each in known}
        return tuple(
            seen.get((each.code, each.description), each) for each in (*self.found, *others)
        )

    def first_error(self) -> ApiStatusError:
        """The first refusal, to fail with."""
        assert self._first is not None
        return self._first
