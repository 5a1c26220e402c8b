"""Listing very many pods, whole and in pages, and their memory."""

import http.client
import statistics
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import msgspec

from bench.home.inputs import Inputs
from bench.home.pod_creation import create_pods
from bench.home.pods import build_realistic_pod, encode_pod
from bench.home.servers import NAMESPACE, Server, StartServer
from bench.report import Measurements, Quantity

_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
_PAGE_SIZE = 500
_BUFFER_SIZE = 1 << 20


class _ListMeta(msgspec.Struct):
    continue_: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw]


def measure(start: StartServer, folder: Path, inputs: Inputs) -> Measurements:
    """Median times to the last byte; memory before the first list."""
    size = f"{inputs.list_pods:,} pods"
    with start(folder) as server:
        server.create_namespace()
        body = encode_pod(build_realistic_pod(generateName="listed-"))
        create_pods(server, body, inputs.list_pods, inputs.connections)
        memory = server.measure_memory()
        full = [time_list(server, inputs.list_pods) for _ in range(inputs.lists)]
        paged = [time_list(server, inputs.list_pods, _PAGE_SIZE) for _ in range(inputs.lists)]
    return {
        Quantity(f"list of {size}, whole", "s", beats_peer=True): statistics.median(full),
        Quantity(
            f"list of {size}, in pages of {_PAGE_SIZE}", "s", beats_peer=True
        ): statistics.median(paged),
        Quantity(f"memory with {size} (RSS)", "MB", beats_peer=True): memory.rss,
        Quantity(f"memory with {size} (PSS)", "MB", beats_peer=True): memory.pss,
    }


def time_list(server: Server, expected: int, limit: int = 0) -> float:
    """Seconds from the first request to the last byte, all pages together.

    Decoding between requests is not timed.
    """
    access = server.access
    connection = http.client.HTTPSConnection(
        access.host, access.port, timeout=600, context=access.ssl_context()
    )
    seconds, found, token = 0.0, 0, ""
    with closing(connection):
        connection.connect()
        while True:
            path = f"{_PATH}?limit={limit}&continue={quote(token)}" if limit else _PATH
            start_time = time.perf_counter()
            body = _read_list(connection, path)
            seconds += time.perf_counter() - start_time
            page = msgspec.json.decode(body, type=_List)
            found += len(page.items)
            token = page.metadata.continue_
            if not token:
                break
    if found != expected:
        raise RuntimeError(f"the list has {found} pods instead of {expected}")
    return seconds


def _read_list(connection: http.client.HTTPSConnection, path: str) -> bytearray:
    connection.request("GET", path, headers={"accept": "application/json"})
    reply = connection.getresponse()
    body = bytearray()
    piece = memoryview(bytearray(_BUFFER_SIZE))
    while size := reply.readinto(piece):
        body += piece[:size]
    if reply.status != 200:
        raise RuntimeError(f"list failed: {body.decode(errors='replace')}")
    return body
