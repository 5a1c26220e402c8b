"""What `test_unprivileged` runs as another user. Prints JSON."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kilonova.local.kubelet_api import OutputStream
from kilonova.local.processnode.cri.api import ContainerStartError, Mount
from tests.local.processnode.shim.shim_site import ShimSite, collect_output, kill, wait_until

RUNAWAYS = """
setsid sh -c 'echo $$; sleep 1000' &
(setsid sh -c 'sh -c "echo \\$\\$; exec sleep 1000" &' &)
echo $$; while :; do :; done
"""


UNMARKED = "(env -i sh -c 'echo $$; exec /bin/sleep 1000' &)"


async def mounts(shim_site: ShimSite) -> object:
    volume = shim_site.folder / "volume"
    volume.mkdir()
    (volume / "file").write_text("hello\n")
    expected = (
        Mount(volume / "file", "/etc/kilonova-test/x"),
        Mount(volume, "/kilonova-test-models", read_only=True),
    )
    read = "cat /etc/kilonova-test/x /kilonova-test-models/file; hostname; id -u"
    state, text = await shim_site.shell(
        read, mounts=expected, hostname="pod-1", address="127.64.9.3"
    )
    write = "echo x > /kilonova-test-models/file"
    refused, problem = await shim_site.shell(write, mounts=expected)
    running = await shim_site.start("sleep", "1000", mounts=expected)
    command = ["cat", "/etc/kilonova-test/x"]
    process = await shim_site.runtime.execute(running.id, command, stdin=False, tty=False)
    seen = (await collect_output(process)).get(OutputStream.STDOUT, b"")
    _, user = await shim_site.shell("id -u", mounts=expected, user=1000)
    return {
        "mounts": [state.exit_code, text],
        "read_only": [refused.exit_code, problem],
        "exec": seen.decode(),
        "user": user,
    }


async def runaways(shim_site: ShimSite) -> object:
    state = await shim_site.start("sh", "-c", UNMARKED + RUNAWAYS)
    await wait_until(lambda: len(shim_site.log(state.id)) == 4)
    await asyncio.sleep(0.1)
    used = (await shim_site.runtime.container_stats())[state.id]
    await shim_site.runtime.kill(state.id)
    ended = await shim_site.runtime.wait(state.id)
    return {
        "pids": [int(line) for line in shim_site.text(state.id).split()],
        "code": ended.exit_code,
        "cpu": used.cpu_nanoseconds,
        "memory": used.memory_bytes,
    }


async def killed_shim(shim_site: ShimSite) -> object:
    state = await shim_site.start("sh", "-c", RUNAWAYS)
    await wait_until(lambda: len(shim_site.log(state.id)) == 3)
    kill(shim_site.shim_pid())
    ended = await shim_site.runtime.wait(state.id)
    return {
        "pids": [int(line) for line in shim_site.text(state.id).split()],
        "reason": ended.reason,
    }


async def no_namespaces(shim_site: ShimSite) -> object:
    capabilities = await shim_site.runtime.capabilities()
    with pytest.raises(ContainerStartError) as failed:
        await shim_site.start("true", mounts=(Mount(shim_site.folder, "/kilonova-test-models"),))
    same = (Mount(shim_site.folder, str(shim_site.folder)),)
    state, text = await shim_site.shell("echo fine", mounts=same, hostname="pod-1")
    return {
        "mounts": capabilities.mounts,
        "reason": failed.value.reason,
        "message": failed.value.message,
        "same_place": [state.exit_code, text],
    }


SCENES: dict[str, Callable[[ShimSite], Awaitable[object]]] = {
    "mounts": mounts,
    "runaways": runaways,
    "killed_shim": killed_shim,
    "no_namespaces": no_namespaces,
}


async def run_scenario(scenario_name: str, folder: Path) -> None:
    shim_site = ShimSite(folder)
    try:
        print(json.dumps(await SCENES[scenario_name](shim_site)))
    finally:
        await shim_site.runtime.shutdown()


if __name__ == "__main__":
    asyncio.run(run_scenario(sys.argv[1], Path(sys.argv[2])))
