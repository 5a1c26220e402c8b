"""`kubectl exec -it` and `kubectl attach`, from a terminal of the test's own."""

import asyncio
import fcntl
import os
import pty
import struct
import termios
from collections.abc import Callable

import pytest

from tests.local.apiserver.streaming.streaming_cluster import StreamingCluster

pytestmark = pytest.mark.usefixtures("kubectl_path")

OVER = {
    "websocket": {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "true", "TERM": "dumb"},
    "spdy": {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "TERM": "dumb"},
}


class Terminal:
    """The user's terminal: keys go in, the screen is what has been printed so far."""

    def __init__(self, columns: int, rows: int) -> None:
        self.master, self.slave = pty.openpty()
        self.screen = b""
        self._changed = asyncio.Event()
        self.resize(columns, rows)
        os.set_blocking(self.master, False)
        asyncio.get_running_loop().add_reader(self.master, self._read)

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def shows(self, is_there: Callable[[bytes], bool]) -> None:
        async with asyncio.timeout(20):
            while not is_there(self.screen):
                self._changed.clear()
                await self._changed.wait()

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self.master)
        os.close(self.master)
        os.close(self.slave)

    def _read(self) -> None:
        try:
            self.screen += os.read(self.master, 65536)
        except OSError:
            return
        self._changed.set()


@pytest.mark.parametrize("over", OVER)
async def test_shell_has_a_terminal_with_its_size(
    streaming_cluster: StreamingCluster, over: str
) -> None:
    await streaming_cluster.pod("web")
    terminal = Terminal(101, 33)
    try:
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), terminal.slave)
        client = await streaming_cluster.start(
            "exec", "-it", "web", "--", "sh", env=OVER[over], **streams
        )
        terminal.type(b"tty -s && echo is-$((1+1))-tty\r")
        await terminal.shows(lambda screen: b"is-2-tty" in screen)
        terminal.type(b"until stty size | grep '33 101'; do sleep 0.1; done\r")
        await terminal.shows(lambda screen: b"\n33 101" in screen)
        terminal.resize(77, 22)
        os.kill(client.pid, 28)  # SIGWINCH: the test's terminal does not control kubectl
        terminal.type(b"until stty size | grep '22 77'; do sleep 0.1; done\r")
        await terminal.shows(lambda screen: b"\n22 77" in screen)
        terminal.type(b"exit 7\r")
        async with asyncio.timeout(20):
            assert await client.wait() == 7
    finally:
        terminal.close()


@pytest.mark.parametrize("over", OVER)
async def test_attach_reaches_the_process_and_detaches(
    streaming_cluster: StreamingCluster, over: str
) -> None:
    await streaming_cluster.pod("web", stdin=True)
    process = await streaming_cluster.machine.spawn(
        "sh", "-c", "while read x; do echo got $x; done"
    )
    streaming_cluster.machine.attachable["web"] = process
    client = await streaming_cluster.start("attach", "-i", "web", env=OVER[over])
    client.stdin.write(b"one\n")
    async with asyncio.timeout(20):
        assert await client.stdout.readline() == b"got one\n"
    client.kill()
    async with asyncio.timeout(30):
        await process.detached.wait()
