"""A directory shared by processes: none loses a write of another, and none leaves half of one."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from kilonova.objectstore import DirectoryStore, NotFound
from tests.harness.campaigns import IS_FULL, SEED

PROCESSES = 3
INCREMENTS = 40
KILLS = 100 if IS_FULL else 8

INCREMENT = """
import asyncio, sys
from pathlib import Path
from kilonova.objectstore import IF_ABSENT, DirectoryStore, NotFound, PreconditionFailed, if_match

async def main(root, times):
    store = DirectoryStore(Path(root))
    while times:
        try:
            found = await store.get("counter")
            value, condition = int(found.body), if_match(found.info.etag)
        except NotFound:
            value, condition = 0, IF_ABSENT
        try:
            await store.put("counter", str(value + 1).encode(), condition)
            times -= 1
        except PreconditionFailed:
            pass

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""

WRITE = """
import asyncio, sys
from pathlib import Path
from kilonova.objectstore import DirectoryStore

async def main(root):
    store = DirectoryStore(Path(root))
    number = 0
    while True:
        await store.put("a/b", str(number).encode() * 50_000)
        print(number, flush=True)
        number = (number + 1) % 10

asyncio.run(main(sys.argv[1]))
"""


def test_no_increment_of_another_process_is_lost(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INCREMENT, str(tmp_path), str(INCREMENTS)]
    running = [subprocess.Popen(command) for _ in range(PROCESSES)]
    assert [each.wait(timeout=200) for each in running] == [0] * PROCESSES
    found = asyncio.run(DirectoryStore(tmp_path).get("counter"))
    assert found.body == str(PROCESSES * INCREMENTS).encode()


@pytest.mark.campaign
def test_killed_writer_leaves_a_whole_object(tmp_path: Path) -> None:
    random = Random(SEED)
    store = DirectoryStore(tmp_path)
    for _ in range(KILLS):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITE, str(tmp_path)], stdout=subprocess.PIPE
        )
        try:
            assert writer.stdout is not None
            writer.stdout.readline()  # it has begun
            time.sleep(random.random() * 0.05)
        finally:
            os.kill(writer.pid, signal.SIGKILL)
            writer.communicate()
        found = asyncio.run(store.get("a/b")).body  # verifies the checksum
        assert found == found[:1] * 50_000
    asyncio.run(store.delete("a/b"))
    with pytest.raises(NotFound):
        asyncio.run(store.get("a/b"))
