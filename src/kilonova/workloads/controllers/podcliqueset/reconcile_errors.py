"""Errors of a reconcile that continues after them."""

from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from kilonova.api.grove.common import LastError
from kilonova.kube import ApiStatusError, Conflict

T = TypeVar("T")


class ReconcileErrors:
    """API errors of one reconcile, for `lastErrors`."""

    def __init__(self, time: str) -> None:
        self._time = time
        self.errors: list[LastError] = []
        self._first: ApiStatusError | None = None

    async def capture(self, code: str, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of the work, or None after an API error.

        A conflict is raised: the cached object is outdated, and the reconcile has to start again.
        """
        try:
            return await work
        except Conflict:
            raise
        except ApiStatusError as error:
            self.errors.append(LastError(code, str(error), self._time))
            self._first = self._first or error
            return None

    def merge_with_known(
        self, known: Iterable[LastError], others: Iterable[LastError] = ()
    ) -> tuple[LastError, ...]:
        """The errors of this reconcile and others, each with the time when it was first seen."""
        seen = {(each.code, each.description): each for each in known}
        return tuple(
            seen.get((each.code, each.description), each) for each in (*self.errors, *others)
        )

    def get_first_error(self) -> ApiStatusError:
        """The first error, to be raised."""
        assert self._first is not None
        return self._first
