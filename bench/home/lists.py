"""Listing very many pods, whole and in pages, and the memory that they take."""

import http.client
import statistics
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import msgspec

from bench.home.inputs import Inputs
from bench.home.load import create_pods
from bench.home.pods import encoded, realistic_pod
from bench.home.servers import NAMESPACE, Server, Start
from bench.report import Figures, Quantity

_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
_PAGE = 500
_BUFFER = 1 << 20


class _ListMeta(msgspec.Struct):
    continue_: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw]


def measure(start: Start, folder: Path, inputs: Inputs) -> Figures:
    """Median times to the last byte; memory before any list was asked for."""
    many = f"{inputs.list_pods:,} pods"
    with start(folder) as server:
        server.make_namespace()
        body = encoded(realistic_pod(generateName="listed-"))
        create_pods(server, body, inputs.list_pods, inputs.connections)
        memory = server.memory()
        whole = [list_seconds(server, inputs.list_pods) for _ in range(inputs.lists)]
        paged = [list_seconds(server, inputs.list_pods, _PAGE) for _ in range(inputs.lists)]
    return {
        Quantity(f"list of {many}, whole", "s", beats_peer=True): statistics.median(whole),
        Quantity(f"list of {many}, by {_PAGE}", "s", beats_peer=True): statistics.median(paged),
        Quantity(f"memory with {many} (RSS)", "MB", beats_peer=True): memory.rss,
        Quantity(f"memory with {many} (PSS)", "MB", beats_peer=True): memory.pss,
    }


def list_seconds(server: Server, expected: int, limit: int = 0) -> float:
    """Seconds from the first request to the last byte, all pages together.

    What is needed to go on or to count is read between requests, with the clock stopped.
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
            began = time.perf_counter()
            body = _read(connection, path)
            seconds += time.perf_counter() - began
            page = msgspec.json.decode(body, type=_List)
            found += len(page.items)
            token = page.metadata.continue_
            if not token:
                break
    if found != expected:
        raise RuntimeError(f"the list has {found} pods, not the {expected} that were created")
    return seconds


def _read(connection: http.client.HTTPSConnection, path: str) -> bytearray:
    connection.request("GET", path, headers={"accept": "application/json"})
    reply = connection.getresponse()
    body = bytearray()
    piece = memoryview(bytearray(_BUFFER))
    while size := reply.readinto(piece):
        body += piece[:size]
    if reply.status != 200:
        raise RuntimeError(f"the list was refused: {body.decode(errors='replace')}")
    return body
