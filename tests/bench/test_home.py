"""The benchmark of the embedded API runs, with tiny inputs."""

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from bench.__main__ import app
from bench.home.raw_http import is_complete
from bench.home.watch_process import ChangeScanner

TINY = {
    "starts": 1,
    "pods": 20,
    "connections": 4,
    "watches": 5,
    "events-per-second": 50,
    "watch-seconds": 1,
    "list-pods": 30,
    "objects": 50,
    "events": 100,
}


def run_home(*options: str) -> str:
    inputs = [word for name, value in TINY.items() for word in (f"--{name}", str(value))]
    result = CliRunner().invoke(app, ["home", *inputs, *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    ("family", "title"),
    [
        ("start", "ready, cold start"),
        ("creates", "minimal pod creates, 4 connections"),
        ("watches", "5 watches × 50 events/s, delivered"),
        ("lists", "list of 30 pods, in pages of 500"),
        ("events", "CPU per event, fields used"),
    ],
)
def test_each_family_measures_the_embedded_api_without_peer(
    family: str, title: str, tmp_path: Path
) -> None:
    file = tmp_path / "figures.json"
    output = run_home("--no-peer", "--only", family, "--json", str(file))
    assert title in output
    rows = {row["title"]: row for row in msgspec.json.decode(file.read_bytes())["rows"]}
    assert rows[title]["ours"] > 0
    assert rows[title]["peer"] is None
    if family == "watches":
        assert rows[title]["ours"] == 100


@pytest.mark.usefixtures("control_plane_binaries")
def test_the_peer_is_in_the_same_table(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    run_home("--only", "lists", "--json", str(file))
    rows = msgspec.json.decode(file.read_bytes())["rows"]
    assert rows
    assert all(row["peer"] > 0 for row in rows)


def test_without_a_name_the_benchmarks_are_listed() -> None:
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 0
    assert "home" in result.output


@pytest.mark.parametrize(
    ("response", "complete"),
    [
        (b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}", True),
        (b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{", False),
        (b"HTTP/1.1 201 Created\r\nContent-Le", False),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", False),
    ],
)
def test_response_is_complete_when_its_end_is_received(response: bytes, complete: bool) -> None:
    assert is_complete(response) is complete


@given(st.data())
def test_each_change_is_found_once_however_the_stream_is_split(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 6))
    body = b"".join(
        b'{"type":"MODIFIED","object":{"bench/sent":"%d-%d","f:bench/sent":{}}}\n' % (n, 1000 + n)
        for n in range(count)
    )
    chunked = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in _split_bytes(data, body))
    scanner = ChangeScanner(count)
    found = [sent for piece in _split_bytes(data, chunked) for sent in scanner.scan(piece)]
    assert found == [1000 + n for n in range(count)]


def test_watch_that_the_server_ends_is_resumed_from_the_last_version() -> None:
    def event(number: int) -> bytes:
        line = b'{"object":{"metadata":{"resourceVersion":"%d","a":{"bench/sent":"%d-%d"}}}}\n' % (
            70 + number,
            number,
            1000 + number,
        )
        return b"%x\r\n%s\r\n" % (len(line), line)

    scanner = ChangeScanner(3)
    assert scanner.scan(event(0)) == [1000]
    assert not scanner.ended
    assert scanner.scan(event(1) + b"0\r\n\r\n") == [1001]
    assert scanner.ended
    assert scanner.reset_stream() == "71"
    assert scanner.scan(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n") == []
    assert scanner.scan(event(1) + event(2)) == [1002]
    assert not scanner.ended


def test_last_chunk_alone_ends_a_watch() -> None:
    scanner = ChangeScanner(1)
    assert scanner.scan(b"0\r\n\r\n") == []
    assert scanner.ended


def _split_bytes(data: st.DataObject, whole: bytes) -> list[bytes]:
    borders = data.draw(st.sets(st.integers(1, len(whole) - 1), max_size=8))
    edges = [0, *sorted(borders), len(whole)]
    return [whole[start:end] for start, end in pairwise(edges)]
