"""What the folder holds, so that the next keeper knows what this one did.

Files are replaced whole: a crash leaves the old one or the new one.
"""

import contextlib
import json
import os
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.nodes.process.keeper.wire import state_from_json, state_to_json
from kilonova.local.nodes.process.runtime import ContainerState

_CONTAINERS = "containers"


class Records:
    """Of one folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        os.makedirs(f"{folder}/{_CONTAINERS}", mode=0o700, exist_ok=True)

    def containers(self) -> dict[str, tuple[ContainerState, int]]:
        """By id: what is known, and when the process started, as /proc tells it."""
        found: dict[str, tuple[ContainerState, int]] = {}
        names = os.listdir(f"{self._folder}/{_CONTAINERS}")
        for name in [each for each in names if each.endswith(".json")]:
            value: JsonObject | None = self.read(f"{_CONTAINERS}/{name}")
            if value is not None:
                started = value.pop("process_started")
                state = state_from_json(value)
                found[state.id] = (state, started)
        return found

    def keep_container(self, state: ContainerState, process_started: int) -> None:
        """Write it down."""
        value = {**state_to_json(state), "process_started": process_started}
        self.write(f"{_CONTAINERS}/{state.id}.json", value)

    def forget_container(self, container: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self._folder}/{_CONTAINERS}/{container}.json")

    def read(self, name: str) -> Any:
        """JSON of a file; None if it is not there, or damaged."""
        try:
            with open(f"{self._folder}/{name}") as file:
                return json.load(file)
        except (FileNotFoundError, ValueError):
            return None

    def write(self, name: str, value: object) -> None:
        """JSON to a file."""
        path = f"{self._folder}/{name}"
        with open(f"{path}.new", "w") as file:
            json.dump(value, file)
        os.replace(f"{path}.new", path)
