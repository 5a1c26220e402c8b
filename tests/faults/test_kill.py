"""`kill -9` at any moment loses nothing acknowledged and leaves no gap in a watch.

`KILONOVA_KILLS` is how often (`make faults`: 1,000), `KILONOVA_SEED` makes another run of it.
"""

import os
import random
import time
from pathlib import Path

import pytest

from tests.faults.ledger import Ledger
from tests.faults.load import Load
from tests.faults.zygote import Zygote
from tests.harness.access import Access
from tests.harness.embedded import EmbeddedServer
from tests.harness.process import free_port

KILLS = int(os.environ.get("KILONOVA_KILLS", "200"))
SEED = int(os.environ.get("KILONOVA_SEED", "1"))


@pytest.mark.timeout(300 + 2 * KILLS)
def test_kills_under_write_load_lose_nothing(tmp_path: Path) -> None:
    data, port = tmp_path / "data", free_port()
    arguments = ("up", "--no-demo", "--no-process-node", "--data", str(data), "--port", str(port))
    with EmbeddedServer.start(data, "--port", str(port)) as server:
        access = server.access
    chance = random.Random(SEED)
    ledger = Ledger()
    load = Load(access, ledger, SEED)
    zygote = Zygote(tmp_path / "zygote.log")
    load.begin()
    try:
        for _ in range(KILLS):
            _run_and_kill(zygote, arguments, load, chance)
            assert not ledger.violations
        pid = zygote.start(*arguments)
        _wait_until_ready(access)
        load.open_gate()
        load.shut_gate()
        _version, found = load.listing()
        _wait(lambda: ledger.shown() == found, "the watch never shows what the list does")
        zygote.kill(pid)
        load.end()
    finally:
        zygote.close()
    assert ledger.violations == []
    assert ledger.lost(found) == []
    assert ledger.gaps() == []
    assert len(ledger.relists) == 1, "a watch had to start anew"
    assert len(ledger.acknowledged) > 5 * KILLS, "the load was too light to prove anything"


def _run_and_kill(
    zygote: Zygote, arguments: tuple[str, ...], load: Load, chance: random.Random
) -> None:
    """One life of the server: some are cut short before it even listens."""
    pid = zygote.start(*arguments)
    if chance.random() < 0.1:
        time.sleep(chance.uniform(0, 0.15))
        zygote.kill(pid)
        return
    _wait_until_ready(load.access)
    load.open_gate()
    time.sleep(chance.uniform(0.01, 0.15))
    zygote.kill(pid)
    load.shut_gate()
    load.ledger.raise_floor()


def _wait_until_ready(access: Access) -> None:
    _wait(access.is_ready, "the server does not come back")


def _wait(condition, complaint: str, timeout: float = 30) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(complaint)
        time.sleep(0.005)
