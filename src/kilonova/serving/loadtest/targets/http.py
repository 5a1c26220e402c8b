"""Any HTTP: a request that is always the same, or bodies in turn."""

from collections.abc import Callable, Sequence
from itertools import cycle

import msgspec

from kilonova.serving.loadtest.outcome import Outcome, RequestSize, TargetDescription
from kilonova.serving.loadtest.targets.connections import (
    HttpAnswer,
    HttpConnections,
    RequestFailed,
)


class _ErrorDetails(msgspec.Struct, frozen=True):
    message: str = ""


class _Error(msgspec.Struct, frozen=True):
    """How servers report what is wrong: Triton, OpenAI's API, frameworks."""

    error: str | _ErrorDetails = ""
    message: str = ""
    detail: str = ""


class HttpTarget:
    """Sends requests that were built before, one after another; a status below 400 is a success."""

    def __init__(
        self,
        connections: HttpConnections,
        requests: Sequence[bytes],
        description: TargetDescription,
        check: Callable[[bytes], str] = lambda _: "",
    ) -> None:
        """`check` states what is wrong with the body of a successful answer, if anything is."""
        self._connections = connections
        self._requests = cycle(requests)
        self._description = description
        self._check = check

    @property
    def description(self) -> TargetDescription:
        return self._description

    async def send(self, size: RequestSize | None = None) -> Outcome:
        try:
            answer = await self._connections.send(next(self._requests))
        except RequestFailed as failure:
            return build_failure(failure)
        if answer.status >= 400:
            return Outcome(str(answer.status), False, read_message(answer))
        problem = self._check(answer.body)
        if problem:
            return Outcome(f"{answer.status}, invalid", False, problem)
        return Outcome(str(answer.status), True)

    async def close(self) -> None:
        self._connections.close()


def build_failure(failure: RequestFailed) -> Outcome:
    """The outcome of a request without an answer."""
    return Outcome(failure.status, False, str(failure))


def read_message(answer: HttpAnswer) -> str:
    """What an answer reports of its error: `error` or `message` of JSON, else its first words."""
    try:
        found = msgspec.json.decode(answer.body, type=_Error)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return answer.body[:300].decode(errors="replace")
    error = found.error
    if isinstance(error, _ErrorDetails):
        error = error.message
    return error or found.message or found.detail or answer.body[:300].decode(errors="replace")
