"""A target that answers as a script says, in the time of the event loop."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from kilonova.serving.loadtest.outcome import Outcome, RequestSize, TargetDescription

OK = Outcome("200", True)


@dataclass
class ScriptedTarget:
    """`delay` and `outcome` are asked for each request, by its number from 0."""

    delay: Callable[[int], float] = lambda _: 0.1
    outcome: Callable[[int], Outcome] = lambda _: OK
    started: list[float] = field(default_factory=list[float])
    sizes: list[RequestSize | None] = field(default_factory=list[RequestSize | None])
    most_in_flight: int = 0
    description: TargetDescription = field(
        default_factory=lambda: TargetDescription("scripted", "http")
    )
    _in_flight: int = 0

    async def send(self, size: RequestSize | None = None) -> Outcome:
        number = len(self.started)
        self.started.append(asyncio.get_running_loop().time())
        self.sizes.append(size)
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            await asyncio.sleep(self.delay(number))
        finally:
            self._in_flight -= 1
        return self.outcome(number)

    async def close(self) -> None:
        pass
