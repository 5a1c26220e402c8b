"""`kilonova serve bench` as it is run."""

import asyncio
import json
import math
import signal
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from kilonova.component.failure import WrongUsage
from kilonova.serving.commands.bench.settings import (
    LoadFlags,
    build_headers,
    build_plan,
    parse_warm_up,
    read_bodies,
)
from tests.cli.command import Kilonova
from tests.serving.loadtest.scripted_server import (
    Received,
    ScriptedServer,
    build_answer,
    serve,
)


async def answer_two_of_three(request: Received) -> AsyncIterator[bytes]:
    if request.number % 3 == 2:
        yield build_answer(b'{"error": "overloaded"}', 503)
    else:
        yield build_answer(b"{}")


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server in a thread of its own; every third request fails."""
    started: list[ScriptedServer] = []
    is_ready, stop = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def run() -> None:
        async with serve(answer_two_of_three) as served:
            started.append(served)
            loops.append(asyncio.get_running_loop())
            is_ready.set()
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    assert is_ready.wait(30)
    yield started[0]
    loops[0].call_soon_threadsafe(stop.set)
    thread.join()


def test_counts_are_those_of_the_server(
    kilonova: Kilonova, server: ScriptedServer, tmp_path: Path
) -> None:
    page = tmp_path / "load.html"
    done = kilonova(
        *("serve", "bench", "--url", f"{server.address}/x", "--requests", "30", "-c", "3"),
        *("--report", page, "--slo", "latency=5s", "-o", "json", "-H", "x-team: a"),
        variables={"KILONOVA_API_KEY": "kn-secret"},
    )
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert (result["requests"], result["succeeded"], result["failed"]) == (30, 20, 10)
    assert result["failures"] == [{"status": "503", "count": 10, "messages": ["overloaded"]}]
    assert result["attainment"] == pytest.approx(66.667)
    assert len(server.received) == 30
    assert server.received[0].headers["x-team"] == "a"
    assert server.received[0].headers["authorization"] == "Bearer kn-secret"
    assert page.read_text().count("<svg") == 3
    assert "kn-secret" not in page.read_text() + done.out + done.err


def test_interrupted_run_prints_what_it_measured(
    kilonova: Kilonova, server: ScriptedServer
) -> None:
    words = ("serve", "bench", "--url", f"{server.address}/x", "-c", "2", "-d", "1h", "-o", "json")
    process = subprocess.Popen(
        kilonova.command(*words),
        env=kilonova.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while len(server.received) < 10:
        assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    result = json.loads(out)
    assert (process.returncode, err) == (130, "")
    assert result["requests"] == len(server.received)
    assert "stopped before its end" in result["notes"]


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (["--url", "127.0.0.1:1"], 2, "--url: '127.0.0.1:1' is no address: write http://HOST"),
        (["--url", "http://u:p@h/"], 2, "an address has no user or password"),
        (["--url", "http://127.0.0.1:9/x", "--report", "/none/x.html"], 1, "--report /none/x.html"),
        (["--url", "http://127.0.0.1:9"], 1, "the index of models cannot be read"),
        (["--url", "grpc://127.0.0.1:9"], 1, "cannot be read from grpc://127.0.0.1:9: UNAVAILABLE"),
        (["--url", "http://h", "--protocol", "v2-grpc"], 1, "it begins with grpc://"),
        (["--url", "http://h", "--shape", "A"], 2, "--shape: 'A' is no shape: write NAME:1,3"),
    ],
)
def test_wrong_words_are_explained(
    kilonova: Kilonova, words: list[str], code: int, problem: str
) -> None:
    done = kilonova("serve", "bench", *words)
    assert done.code == code, done.err
    assert problem in done.err


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (LoadFlags(rate=5, concurrency=2), "choose one"),
        (LoadFlags(rate=-1), "--rate -1: the level -1"),
        (LoadFlags(rate=math.nan), "--rate nan: the level nan: use 0 to"),
        (LoadFlags(duration="0s"), "--duration 0s: use more than 0, at most 24h"),
        (LoadFlags(duration="-5s"), "--duration -5s: use more than 0, at most 24h"),
        (LoadFlags(rate=3, duration="25h"), "--duration 25h: use more than 0, at most 24h"),
        (LoadFlags(rate=1, speed=2), "--speed 2: it is of a --trace, and none is given"),
        (LoadFlags(trace=Path("x"), speed=0), "--speed 0: use more than 0"),
        (LoadFlags(trace=Path("x"), speed=math.nan), "--speed nan: use more than 0"),
        (LoadFlags(trace=Path("x"), speed=math.inf), "--speed inf: use more than 0"),
        (LoadFlags(arrivals="constant"), "--arrivals needs --rate or --step"),
        (LoadFlags(step="10s:5", duration="1s"), "--step sets clients and times itself"),
        (LoadFlags(step="10s"), "--step 10s: '10s' has no level"),
        (LoadFlags(trace=Path("x"), rate=1), "--rate: --trace determines when requests are sent"),
        (LoadFlags(duration="ten"), "--duration ten"),
        (LoadFlags(timeout="0s"), "--timeout 0s: use more than 0"),
        (LoadFlags(requests=10**9), "--requests 1000000000: use 1 to"),
        (LoadFlags(duration="5s", warm_up="5s"), "--warm-up 5s: the run takes 5 s"),
    ],
)
def test_load_that_is_none_is_explained(flags: LoadFlags, problem: str) -> None:
    with pytest.raises(WrongUsage, match=problem):
        parse_warm_up(flags, build_plan(flags))


def test_load_is_closed_unless_a_rate_is_given() -> None:
    assert build_plan(LoadFlags()).kind == "closed"
    assert build_plan(LoadFlags(rate=3)).kind == "poisson"
    assert build_plan(LoadFlags(step="1s:3", arrivals="constant")).kind == "constant"
    assert build_plan(LoadFlags(step="1s:3")).kind == "closed"
    assert build_plan(LoadFlags(requests=3)).seconds > 3600


def test_headers_are_read_and_the_key_comes_from_the_environment() -> None:
    headers = build_headers(["X-Team: a b"], {"KILONOVA_API_KEY": "k"})
    assert headers == {"authorization": "Bearer k", "x-team": "a b"}
    assert build_headers(["authorization: Bearer t"], {"KILONOVA_API_KEY": "k"}) == {
        "authorization": "Bearer t"
    }
    for wrong in ("no colon", "a b: c", "a: b\r\nc: d"):
        with pytest.raises(WrongUsage, match="--header: write 'NAME: VALUE'"):
            build_headers([wrong], {})


def test_bodies_are_one_value_or_one_on_each_line(tmp_path: Path) -> None:
    file = tmp_path / "b.json"
    file.write_text('{"a":\n 1}')
    assert read_bodies(file) == ({"a": 1},)
    file.write_text('{"a": 1}\n\n{"a": 2}\n')
    assert read_bodies(file) == ({"a": 1}, {"a": 2})
