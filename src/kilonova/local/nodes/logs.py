"""What simulated containers have printed: that they started, and how they ended."""

from collections.abc import AsyncIterator

from kilonova.api.json import JsonObject
from kilonova.local.kinds.walk import objects, part
from kilonova.local.logs import LogRequest


class SimulatedLogs:
    """Tells a container's life from its status; there is nothing else to tell."""

    async def open(self, pod: JsonObject, wanted: LogRequest) -> AsyncIterator[bytes]:
        """The lines of one container."""
        states = {item["name"]: item for item in objects(pod, "status", "containerStatuses")}
        state = part(states, wanted.container, "state")
        lines: list[tuple[str, str]] = []
        ended = part(state, "terminated")
        started = (part(state, "running") or ended).get("startedAt")
        if started:
            lines.append((started, f"simulated container {wanted.container} started"))
        if ended:
            text = f"simulated container {wanted.container} ended with exit code"
            lines.append((ended["finishedAt"], f"{text} {ended['exitCode']}"))
        kept = lines if wanted.tail is None else lines[len(lines) - min(len(lines), wanted.tail) :]
        for moment, text in kept:
            yield (f"{moment} {text}\n" if wanted.timestamps else f"{text}\n").encode()
