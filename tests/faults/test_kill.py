"""`kill -9` at any moment loses no acknowledged write and leaves no gap in a watch.

`KILONOVA_KILLS` is the number of kills (`make faults`: 1,000), `KILONOVA_SEED` the random seed.
The moment of a kill is a number of acknowledged writes, not a time: a slow machine is killed under
as much load as a fast one.
"""

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.load_generator import LoadGenerator
from tests.faults.write_ledger import WriteLedger
from tests.faults.zygote import Zygote
from tests.harness.access import ServerAccess
from tests.harness.embedded_server import EmbeddedServer
from tests.harness.server_process import find_free_port

KILLS = int(os.environ.get("KILONOVA_KILLS", "60"))
SEED = int(os.environ.get("KILONOVA_SEED", "1"))
MOST_WRITES_BEFORE_KILL = 20


@pytest.mark.timeout(300 + 2 * KILLS)
def test_kills_under_write_load_lose_nothing(tmp_path: Path) -> None:
    data, port = tmp_path / "data", find_free_port()
    arguments = ("up", "--no-demo", "--no-process-node", "--data", str(data), "--port", str(port))
    with EmbeddedServer.start(data, "--port", str(port)) as server:
        access = server.access
    chance = random.Random(SEED)
    ledger = WriteLedger()
    load = LoadGenerator(access, ledger, SEED)
    zygote = Zygote(tmp_path / "zygote.log")
    load.start()
    try:
        for writes in _draw_writes_before_kills(chance):
            _run_and_kill(zygote, arguments, load, chance, writes)
            assert not ledger.violations
        pid = zygote.start(*arguments)
        _wait_until_ready(access)
        load.resume()
        load.pause()
        _version, found = load.list_values()
        _wait_until(
            lambda: ledger.list_watched_values() == found,
            "the watch never shows the state of the list",
        )
        zygote.kill(pid)
        load.stop()
    finally:
        zygote.close()
    assert ledger.violations == []
    assert ledger.find_lost_writes(found) == []
    assert ledger.find_watch_gaps() == []
    assert len(ledger.relists) == 1, "a watch had to be restarted"
    assert ledger.count_acknowledged() > 5 * KILLS, "the load was too light to prove anything"


def _draw_writes_before_kills(chance: random.Random) -> list[int]:
    """For each kill a number of acknowledged writes, evenly spread, in random order."""
    writes = [round(MOST_WRITES_BEFORE_KILL * number / KILLS) for number in range(1, KILLS + 1)]
    chance.shuffle(writes)
    return writes


def _run_and_kill(
    zygote: Zygote,
    arguments: tuple[str, ...],
    load: LoadGenerator,
    chance: random.Random,
    writes: int,
) -> None:
    """Start the server and kill it after so many writes; sometimes before it listens."""
    pid = zygote.start(*arguments)
    if chance.random() < 0.1:
        time.sleep(chance.uniform(0, 0.15))
        zygote.kill(pid)
        return
    _wait_until_ready(load.access)
    load.resume()
    _wait_for_writes(load.ledger, writes)
    time.sleep(chance.uniform(0, 0.01))  # so that the next writes are at any stage
    zygote.kill(pid)
    load.pause()
    load.ledger.raise_floor()


def _wait_until_ready(access: ServerAccess) -> None:
    _wait_until(access.is_ready, "the server does not become ready again")


def _wait_for_writes(ledger: WriteLedger, count: int) -> None:
    expected = ledger.count_acknowledged() + count
    _wait_until(
        lambda: ledger.count_acknowledged() >= expected,
        f"the server does not acknowledge {count} writes",
        poll=0.001,
    )


def _wait_until(
    condition: Callable[[], bool], message: str, timeout: float = 60, poll: float = 0.005
) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(message)
        time.sleep(poll)
