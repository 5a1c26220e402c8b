"""What `test_keeper_unprivileged` lets another user do. Prints JSON."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kilonova.local.kubelets import Output
from kilonova.local.nodes.process.runtime import Mount, StartFailed
from tests.local.process.keeper.site import Site, collected, kill, until

RUNAWAYS = """
setsid sh -c 'echo $$; sleep 1000' &
(setsid sh -c 'sh -c "echo \\$\\$; exec sleep 1000" &' &)
echo $$; while :; do :; done
"""


UNMARKED = "(env -i sh -c 'echo $$; exec /bin/sleep 1000' &)"


async def mounts(site: Site) -> object:
    volume = site.folder / "volume"
    volume.mkdir()
    (volume / "file").write_text("hello\n")
    wanted = (
        Mount(volume / "file", "/etc/kilonova-test/x"),
        Mount(volume, "/kilonova-test-models", read_only=True),
    )
    read = "cat /etc/kilonova-test/x /kilonova-test-models/file; hostname; id -u"
    state, text = await site.shell(read, mounts=wanted, hostname="pod-1", address="127.64.9.3")
    write = "echo x > /kilonova-test-models/file"
    refused, problem = await site.shell(write, mounts=wanted)
    running = await site.start("sleep", "1000", mounts=wanted)
    command = ["cat", "/etc/kilonova-test/x"]
    process = await site.runtime.execute(running.id, command, stdin=False, tty=False)
    seen = (await collected(process)).get(Output.STDOUT, b"")
    _, user = await site.shell("id -u", mounts=wanted, user=1000)
    return {
        "mounts": [state.exit_code, text],
        "read_only": [refused.exit_code, problem],
        "exec": seen.decode(),
        "user": user,
    }


async def runaways(site: Site) -> object:
    state = await site.start("sh", "-c", UNMARKED + RUNAWAYS)
    await until(lambda: len(site.log(state.id)) == 4)
    await asyncio.sleep(0.1)
    used = (await site.runtime.consumption())[state.id]
    await site.runtime.kill(state.id)
    ended = await site.runtime.wait(state.id)
    return {
        "pids": [int(line) for line in site.text(state.id).split()],
        "code": ended.exit_code,
        "cpu": used.cpu_nanoseconds,
        "memory": used.memory_bytes,
    }


async def killed_keeper(site: Site) -> object:
    state = await site.start("sh", "-c", RUNAWAYS)
    await until(lambda: len(site.log(state.id)) == 3)
    kill(site.keeper_pid())
    ended = await site.runtime.wait(state.id)
    return {
        "pids": [int(line) for line in site.text(state.id).split()],
        "reason": ended.reason,
    }


async def no_namespaces(site: Site) -> object:
    capabilities = await site.runtime.capabilities()
    with pytest.raises(StartFailed) as failed:
        await site.start("true", mounts=(Mount(site.folder, "/kilonova-test-models"),))
    same = (Mount(site.folder, str(site.folder)),)
    state, text = await site.shell("echo fine", mounts=same, hostname="pod-1")
    return {
        "mounts": capabilities.mounts,
        "reason": failed.value.reason,
        "message": failed.value.message,
        "same_place": [state.exit_code, text],
    }


SCENES: dict[str, Callable[[Site], Awaitable[object]]] = {
    "mounts": mounts,
    "runaways": runaways,
    "killed_keeper": killed_keeper,
    "no_namespaces": no_namespaces,
}


async def play(scene: str, folder: Path) -> None:
    site = Site(folder)
    try:
        print(json.dumps(await SCENES[scene](site)))
    finally:
        await site.runtime.shutdown()


if __name__ == "__main__":
    asyncio.run(play(sys.argv[1], Path(sys.argv[2])))
