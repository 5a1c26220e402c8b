"""Records in the shim's directory, by which the next shim continues.

Files are replaced atomically: a crash leaves the old one or the new one.
"""

import contextlib
import json
import os
from typing import Any

from kilonova.local.processnode.cri.api import ContainerState, JsonObject
from kilonova.local.processnode.cri.codec import decode_state, encode_state

_CONTAINERS_DIRECTORY = "containers"


class ShimRecords:
    """The records of one directory."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        os.makedirs(f"{directory}/{_CONTAINERS_DIRECTORY}", mode=0o700, exist_ok=True)

    def load_containers(self) -> dict[str, tuple[ContainerState, int]]:
        """States by id, with the start time of the process as in /proc."""
        found: dict[str, tuple[ContainerState, int]] = {}
        names = os.listdir(f"{self._directory}/{_CONTAINERS_DIRECTORY}")
        for name in [each for each in names if each.endswith(".json")]:
            value: JsonObject | None = self.read_file(f"{_CONTAINERS_DIRECTORY}/{name}")
            if value is not None:
                started = value.pop("process_started")
                state = decode_state(value)
                found[state.id] = (state, started)
        return found

    def save_container(self, state: ContainerState, process_started: int) -> None:
        """Persist a container."""
        value = {**encode_state(state), "process_started": process_started}
        self.write_file(f"{_CONTAINERS_DIRECTORY}/{state.id}.json", value)

    def delete_container(self, container: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self._directory}/{_CONTAINERS_DIRECTORY}/{container}.json")

    def read_file(self, name: str) -> Any:
        """The JSON of a file; None if it does not exist, or is damaged."""
        try:
            with open(f"{self._directory}/{name}") as file:
                return json.load(file)
        except (FileNotFoundError, ValueError):
            return None

    def write_file(self, name: str, value: object) -> None:
        """Write JSON to a file."""
        path = f"{self._directory}/{name}"
        with open(f"{path}.new", "w") as file:
            json.dump(value, file)
        os.replace(f"{path}.new", path)
