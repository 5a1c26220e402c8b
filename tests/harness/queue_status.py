"""Waits for the status of Queues, which a scheduler writes at most every few seconds."""

from typing import Any

from kilonova.kube import Client
from tests.harness.sample_workloads import QUEUES
from tests.local.embedded_cluster import find, wait_for_condition


async def wait_for_queue_status(client: Client, name: str, **expected: Any) -> None:
    """Wait until a queue is observed and has these fields; of amounts only the given resources."""

    async def is_written() -> bool:
        status = ((await find(client, QUEUES, name)) or {}).get("status", {})
        return bool(status.get("conditions")) and all(
            value.items() <= status.get(field, {}).items()
            if isinstance(value, dict)
            else status.get(field) == value
            for field, value in expected.items()
        )

    await wait_for_condition(is_written)
