"""Real processes under the filter: addresses, ports, localhost, Services."""

import asyncio
import errno
import os
import socket
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from kilonova.local.processnode.network import RouteError, is_supported
from tests.local.processnode.network.network_pods import (
    SERVER,
    NetworkPods,
    line,
    new_address,
    pods,
    python,
    route,
)

pytestmark = pytest.mark.skipif(not is_supported(), reason="the kernel has no pod network here")

SERVICE = "10.96.200.1"
CALL = "print(call(sys.argv[1], int(sys.argv[2])))"


@pytest.fixture(name="pods")
async def _pods() -> AsyncGenerator[NetworkPods]:
    async with pods() as made:
        yield made


async def call(ip: str, port: int) -> str:
    """A client on this machine outside of pods."""
    reader, writer = await asyncio.open_connection(ip, port)
    answer = await reader.read()
    writer.close()
    return answer.decode()


@pytest.mark.parametrize("bound", ["0.0.0.0", "::", "127.0.0.1", "::1", "::ffff:0.0.0.0"])
async def test_replicas_have_the_same_port_at_addresses_of_their_own(
    pods: NetworkPods, bound: str
) -> None:
    one, two, three = (new_address() for _ in range(3))
    for address in (one, two, three):
        await pods.serve(address, SERVER, bound, 8080, address)
    for address in (one, two, three):
        assert await call(address, 8080) == f"{address} 127.0.0.1"


async def test_localhost_is_the_pods_own(pods: NetworkPods) -> None:
    one, two = new_address(), new_address()
    await pods.serve(one, SERVER, "127.0.0.1", 8081, "one")
    await pods.serve(two, SERVER, "0.0.0.0", 8081, "two")
    assert await pods.run(one, CALL, "127.0.0.1", 8081) == "one 127.0.0.1"
    assert await pods.run(two, CALL, "127.0.0.1", 8081) == "two 127.0.0.1"
    six = "print(call('::1', 8081, socket.AF_INET6))"
    assert await pods.run(two, six) == "two 127.0.0.1"


async def test_localhost_is_the_machines_where_the_pod_has_nothing(pods: NetworkPods) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"the machine")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await pods.run(new_address(), CALL, "127.0.0.1", port) == "the machine"


async def test_cluster_ip_leads_to_all_backends_and_they_see_the_pod(pods: NetworkPods) -> None:
    one, two, client = (new_address() for _ in range(3))
    for address in (one, two):
        await pods.serve(address, SERVER, "0.0.0.0", 8080, address)
    pods.network.set_routes([route(SERVICE, 80, (one, 8080), (two, 8080))])
    script = "print({call(sys.argv[1], 80) for _ in range(60)})"
    answers = eval(await pods.run(client, script, SERVICE))
    assert answers == {f"{one} {client}", f"{two} {client}"}


async def test_curl_reaches_a_service(pods: NetworkPods, tmp_path: Path) -> None:
    server = new_address()
    (tmp_path / "hello").write_text("hello from a pod")
    web = ["-m", "http.server", "8000", "--directory", str(tmp_path)]
    await pods.start(server, [sys.executable, "-u", *web], stderr=asyncio.subprocess.DEVNULL)
    await line(pods.processes[-1])
    pods.network.set_routes([route(SERVICE, 80, (server, 8000))])
    client = await pods.start(
        new_address(), ["curl", "-sS", "--noproxy", "*", f"http://{SERVICE}/hello"]
    )
    output, _ = await client.communicate()
    assert output == b"hello from a pod"


REFUSAL = """
try:
    call(sys.argv[1], int(sys.argv[2]))
except OSError as error:
    print(error.errno)
"""


@pytest.mark.parametrize(
    ("port", "meaning"), [(80, "no ready backend"), (81, "no such port"), (82, "nobody listens")]
)
async def test_service_refuses_where_nothing_answers(
    pods: NetworkPods, port: int, meaning: str
) -> None:
    pods.network.set_routes([route(SERVICE, 80), route(SERVICE, 82, (new_address(), 1))])
    answer = await pods.run(new_address(), REFUSAL, SERVICE, port)
    assert answer == str(errno.ECONNREFUSED), meaning


async def test_non_blocking_clients_connect(pods: NetworkPods) -> None:
    server = new_address()
    await pods.serve(server, SERVER, "0.0.0.0", 8080, "here")
    pods.network.set_routes([route(SERVICE, 80, (server, 8080))])
    script = """
import asyncio
async def main():
    async def one():
        reader, writer = await asyncio.open_connection(sys.argv[1], 80)
        answer = await reader.read()
        writer.close()
        return answer.split()[0]
    answers = await asyncio.gather(*(one() for _ in range(20)))
    print(answers.count(b"here"))
asyncio.run(main())
"""
    assert await pods.run(new_address(), script, SERVICE) == "20"


async def test_threads_bind_and_connect(pods: NetworkPods) -> None:
    server = new_address()
    await pods.serve(server, SERVER, "0.0.0.0", 8080, "here")
    pods.network.set_routes([route(SERVICE, 80, (server, 8080))])
    script = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as threads:
    answers = list(threads.map(lambda _: call(sys.argv[1], 80).split()[0], range(100)))
    def bind(port):
        with socket.socket() as server:
            server.bind(("0.0.0.0", port))
            return server.getsockname()[0]
    bound = set(threads.map(bind, range(9000, 9050)))
print(set(answers), bound)
"""
    client = new_address()
    assert await pods.run(client, script, SERVICE) == f"{{'here'}} {{'{client}'}}"


async def test_udp_reaches_a_service(pods: NetworkPods) -> None:
    server, client = new_address(), new_address()
    echo = """
server = socket.socket(type=socket.SOCK_DGRAM)
server.bind(("0.0.0.0", 5000))
print("ready", flush=True)
while True:
    data, peer = server.recvfrom(100)
    server.sendto(b"echo " + data, peer)
"""
    await pods.serve(server, echo)
    pods.network.set_routes([route(SERVICE, 53, (server, 5000), protocol="UDP")])
    script = """
client = socket.socket(type=socket.SOCK_DGRAM)
client.settimeout(10)
client.connect((sys.argv[1], 53))
client.send(b"hi")
print(client.recv(100).decode())
"""
    assert await pods.run(client, script, SERVICE) == "echo hi"


@pytest.mark.parametrize("kind", ["STREAM", "DGRAM"])
async def test_client_that_binds_any_port_is_not_tied_to_loopback(
    pods: NetworkPods, kind: str
) -> None:
    script = f"""
client = socket.socket(type=socket.SOCK_{kind})
client.bind(("0.0.0.0", 0))
print(client.getsockname()[0])
"""
    assert await pods.run(new_address(), script) == "0.0.0.0"


async def test_port_that_the_kernel_chose_is_the_pods_localhost(pods: NetworkPods) -> None:
    script = """
server = socket.create_server(("127.0.0.1", 0))
port = server.getsockname()[1]
client = socket.create_connection(("127.0.0.1", port), 10)
print(server.getsockname()[0], client.getpeername() == server.getsockname())
"""
    address = new_address()
    assert await pods.run(address, script) == f"{address} True"


@pytest.mark.parametrize("order", [("0.0.0.0", "::"), ("::", "0.0.0.0"), ("::1", "127.0.0.1")])
async def test_server_of_both_families_answers_whichever_it_opens_first(
    pods: NetworkPods, order: tuple[str, str]
) -> None:
    """As asyncio, nginx and redis do: one socket for IPv4, one for IPv6 alone."""
    script = """
from selectors import DefaultSelector, EVENT_READ
selector = DefaultSelector()
for host in sys.argv[1:3]:
    six = ":" in host
    server = socket.socket(socket.AF_INET6 if six else socket.AF_INET)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if six:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    server.bind((host, 8080))
    server.listen()
    selector.register(server, EVENT_READ)
print("ready", flush=True)
while True:
    for key, _ in selector.select():
        with key.fileobj.accept()[0] as client:
            client.sendall(b"here")
"""
    address = new_address()
    await pods.serve(address, script, *order)
    assert [await call(address, 8080) for _ in range(20)] == ["here"] * 20


async def test_second_server_of_a_pod_cannot_have_the_port(pods: NetworkPods) -> None:
    address = new_address()
    await pods.serve(address, SERVER, "0.0.0.0", 8080, "first")
    script = """
try:
    socket.create_server(("", 8080))
except OSError as error:
    print(error.errno)
"""
    assert await pods.run(address, script) == str(errno.EADDRINUSE)


async def test_invalid_calls_get_the_kernels_error(pods: NetworkPods) -> None:
    script = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
server = socket.socket()
address = b"\\2\\0" + bytes(14)
for call in (libc.bind, libc.connect):
    for arguments in (
        (server.fileno(), address, 3),
        (server.fileno(), ctypes.c_void_p(16), 16),
        (server.fileno(), ctypes.c_void_p(2**64 - 8), 16),
        (server.fileno(), address, -1),
        (77, address, 16),
        (0, address, 16),
    ):
        assert call(*arguments) == -1
        print(os.strerror(ctypes.get_errno()), end=";")
"""
    under, free = (
        await pods.run(new_address(), script),
        await asyncio.create_subprocess_exec(
            *python(script), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        ),
    )
    natively, _ = await free.communicate()
    assert under == natively.decode()


async def test_caller_may_die_during_a_call(pods: NetworkPods) -> None:
    """Its call is taken, and it is gone before the answer."""
    server = new_address()
    stuck = await pods.serve(server, FULL_BACKLOG)
    pods.network.set_routes([route(SERVICE, 80, (server, 8080))])
    client = await pods.serve(new_address(), "print('ready', flush=True)\n" + CALL, SERVICE, 80)
    await still_waiting(client)
    client.kill()
    await client.wait()
    stuck.kill()
    await pods.serve(new_address(), SERVER, "0.0.0.0", 8080, "the network goes on")


FULL_BACKLOG = """
server = socket.socket()
server.bind(("0.0.0.0", 8080))
server.listen(0)
keep = [socket.socket() for _ in range(3)]
for one in keep:
    one.setblocking(False)
    one.connect_ex(("127.0.0.1", 8080))
print("ready", flush=True)
sys.stdin.readline()
while True:
    client, _ = server.accept()
    try:
        client.sendall(b"at last")
    except OSError:
        pass
    client.close()
"""
"""A server whose backlog is full, until it is signalled to go on."""


async def still_waiting(process: asyncio.subprocess.Process) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await process.wait()


async def test_full_backlog_keeps_only_its_client_waiting(pods: NetworkPods) -> None:
    slow, quick = new_address(), new_address()
    server = await pods.serve(slow, FULL_BACKLOG)
    await pods.serve(quick, SERVER, "0.0.0.0", 8080, "quick")
    pods.network.set_routes([route(SERVICE, 80, (slow, 8080)), route(SERVICE, 81, (quick, 8080))])
    client = await pods.serve(new_address(), "print('ready', flush=True)\n" + CALL, SERVICE, 80)
    await still_waiting(client)
    assert (await pods.run(new_address(), CALL, SERVICE, 81)).startswith("quick")
    assert server.stdin is not None
    server.stdin.write(b"go\n")
    assert await line(client) == "at last"


async def test_client_send_timeout_is_respected(pods: NetworkPods) -> None:
    server = new_address()
    await pods.serve(server, FULL_BACKLOG)
    pods.network.set_routes([route(SERVICE, 80, (server, 8080))])
    script = """
import struct
client = socket.socket()
client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", 0, 200000))
print(client.connect_ex((sys.argv[1], 80)))
"""
    assert await pods.run(new_address(), script, SERVICE) == str(errno.EINPROGRESS)


async def test_signals_do_not_disturb_a_call(pods: NetworkPods) -> None:
    """With handlers that restart calls, as Go's runtime has them."""
    server = new_address()
    await pods.serve(server, SERVER, "0.0.0.0", 8080, "here")
    pods.network.set_routes([route(SERVICE, 80, (server, 8080))])
    script = """
import signal
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
print({call(sys.argv[1], 80).split()[0] for _ in range(300)})
signal.setitimer(signal.ITIMER_REAL, 0)
"""
    assert await pods.run(new_address(), script, SERVICE) == "{'here'}"


async def test_descendants_are_in_the_pod_also_when_their_parent_has_gone(
    pods: NetworkPods,
) -> None:
    address = new_address()
    script = """
import os, subprocess
if os.fork():
    os._exit(0)
os.setsid()
child = "import socket; s = socket.socket(); s.bind(('', 8080)); print(s.getsockname()[0])"
subprocess.run([sys.executable, "-c", child], check=True)
"""
    assert await pods.run(address, script) == address


async def test_listener_is_closed_when_its_last_process_is_gone(pods: NetworkPods) -> None:
    before = len(os.listdir("/proc/self/fd"))
    await pods.run(new_address(), "pass")
    async with asyncio.timeout(10):
        while len(os.listdir("/proc/self/fd")) > before:
            await asyncio.sleep(0.01)
    assert len(os.listdir("/proc/self/fd")) <= before


async def test_calls_fail_when_the_network_is_closed(pods: NetworkPods) -> None:
    script = """
print("ready", flush=True)
sys.stdin.readline()
print(socket.socket().connect_ex(("127.0.0.1", 1)))
"""
    process = await pods.serve(new_address(), script)
    pods.network.close()
    assert process.stdin is not None
    process.stdin.write(b"go\n")
    assert await line(process) == str(errno.ENOSYS)


async def test_resolver_daemon_is_refused(pods: NetworkPods) -> None:
    script = """
client = socket.socket(socket.AF_UNIX)
print(client.connect_ex("/run/systemd/resolve/io.systemd.Resolve"))
"""
    assert await pods.run(new_address(), script) == str(errno.ECONNREFUSED)


async def test_unix_sockets_are_unchanged(pods: NetworkPods, tmp_path: Path) -> None:
    script = """
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
print(socket.socket(socket.AF_UNIX).connect_ex(sys.argv[1]))
"""
    assert await pods.run(new_address(), script, tmp_path / "socket") == "0"


async def test_bad_routes_change_nothing(pods: NetworkPods) -> None:
    server = new_address()
    await pods.serve(server, SERVER, "0.0.0.0", 8080, "here")
    pods.network.set_routes([route(SERVICE, 80, (server, 8080))])
    with pytest.raises(RouteError, match="is not a route"):
        pods.network.set_routes([{"address": SERVICE}])
    assert (await pods.run(new_address(), CALL, SERVICE, 80)).startswith("here")


def test_this_process_is_not_under_the_filter() -> None:
    """Neither the detection nor the pods have left anything behind."""
    assert is_supported()
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        assert server.getsockname()[0] == "127.0.0.1"
