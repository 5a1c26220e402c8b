"""What simulated containers have printed: that they started, and how they ended."""

from collections.abc import AsyncIterator

from kilonova.api.json import JsonObject
from kilonova.local.logs import LogRequest


class SimulatedLogs:
    """Tells a container's life from its status; there is nothing else to tell."""

    async def open(self, pod: JsonObject, wanted: LogRequest) -> AsyncIterator[bytes]:
        """The lines of one container."""
        statuses = (pod.get("status") or {}).get("containerStatuses") or []
        state = next((item["state"] for item in statuses if item["name"] == wanted.container), {})
        lines: list[tuple[str, str]] = []
        running, ended = state.get("running"), state.get("terminated")
        started = (running or ended or {}).get("startedAt")
        if started:
            lines.append((started, f"simulated container {wanted.container} started"))
        if ended:
            lines.append((ended["finishedAt"], f"simulated container {wanted.container} ended with exit code {ended['exitCode']}"))
        kept = lines if wanted.tail is None else lines[len(lines) - min(len(lines), wanted.tail) :]
        for moment, text in kept:
            yield (f"{moment} {text}\n" if wanted.timestamps else f"{text}\n").encode()
