"""Targets over HTTP count what a server did, whose every answer is known."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from kilonova.component.failure import CommandFailed
from kilonova.serving.loadtest.analysis import RunReport, compute_result
from kilonova.serving.loadtest.outcome import Outcome, RequestSize, Target
from kilonova.serving.loadtest.profile import build_constant_profile
from kilonova.serving.loadtest.recorder import Recorder
from kilonova.serving.loadtest.result import LoadResult
from kilonova.serving.loadtest.runner import LoadPlan, LoadRun
from kilonova.serving.loadtest.targets.address import Address
from kilonova.serving.loadtest.targets.options import (
    CompletionOptions,
    TargetOptions,
    TensorOptions,
)
from kilonova.serving.loadtest.targets.selection import build_target
from tests.harness.server_process import find_free_port
from tests.serving.loadtest.scripted_server import (
    STREAM_HEAD,
    Received,
    build_answer,
    build_chunk,
    serve,
)

METADATA = {
    "name": "m",
    "inputs": [
        {"name": "A", "datatype": "FP32", "shape": [-1, 3]},
        {"name": "N", "datatype": "INT64", "shape": [-1]},
        {"name": "T", "datatype": "BYTES", "shape": [-1, -1]},
    ],
}
INFERENCE = {"model_name": "m", "outputs": [{"name": "O", "data": [1]}]}


async def measure(target: Target, clients: int, requests: int) -> LoadResult:
    profile = build_constant_profile(clients, 60)
    plan = LoadPlan(kind="closed", profile=profile, max_requests=requests, timeout=5)
    recorder = Recorder()
    run = LoadRun(target, plan, recorder)
    await run.run()
    await target.close()
    return compute_result(RunReport(target.description, plan), recorder, run.progress)


async def send_once(target: Target) -> Outcome:
    outcome = await target.send()
    await target.close()
    return outcome


async def answer_two_of_three(request: Received) -> AsyncIterator[bytes]:
    if request.number % 3 == 2:
        yield build_answer(b'{"error": "no server is ready"}', 503)
    else:
        yield build_answer(b"{}")


async def test_every_third_request_that_fails_is_counted() -> None:
    async with serve(answer_two_of_three) as server:
        address = replace(server.address, path="/work")
        target = await build_target(address, "http", TargetOptions(bodies=({"a": 1}, {"a": 2})))
        result = await measure(target, clients=4, requests=300)
    assert (result.requests, result.succeeded, result.failed) == (300, 200, 100)
    assert [(each.status, each.count, each.messages) for each in result.failures] == [
        ("503", 100, ["no server is ready"])
    ]
    assert server.connections == 4
    assert {request.path for request in server.received} == {"/work"}
    bodies = [json.loads(request.body)["a"] for request in server.received]
    assert (bodies.count(1), bodies.count(2)) == (150, 150)


async def answer_in_pieces(request: Received) -> AsyncIterator[bytes]:
    """Each number another way to end an answer, or to fail."""
    match request.number:
        case 0:
            yield b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 O"
            await asyncio.sleep(0.01)
            yield b"K\r\ncontent-length: 4\r\n\r\nab"
            yield b"cd"
        case 1:
            yield b"HTTP/1.1 200 OK\r\n\r\nuntil the end"
            yield b""
        case 2:
            yield b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nnot all"
            yield b""
        case 3:
            yield b""
        case 4:
            yield b"220 mail.example.com ESMTP\r\n"
        case 5:
            yield STREAM_HEAD + build_chunk(b"abc") + build_chunk(b"")
        case _:
            yield build_answer(b"{}", close=True)


async def test_answers_end_in_every_way_that_http_has() -> None:
    async with serve(answer_in_pieces) as server:
        address = replace(server.address, path="/x")
        target = await build_target(address, "http", TargetOptions())
        outcomes = [await target.send() for _ in range(7)]
        await target.close()
    assert [each.status for each in outcomes] == [
        *("200", "200", "connection lost", "connection lost", "invalid answer", "200", "200")
    ]
    assert outcomes[2].message == "the server closed the connection in the middle of the answer"
    assert outcomes[3].message == "the server closed the connection before it answered"
    # That of the first was kept for the second, and that of the sixth for the seventh.
    assert server.connections == 5


async def test_server_that_is_not_there_is_a_failure_of_each_request() -> None:
    address = Address("http", "127.0.0.1", find_free_port(), "/x")
    target = await build_target(address, "http", TargetOptions())
    result = await measure(target, clients=2, requests=6)
    assert [(each.status, each.count) for each in result.failures] == [("connect error", 6)]
    assert "Connect call failed" in result.failures[0].messages[0]


async def answer_v2(request: Received) -> AsyncIterator[bytes]:
    answers: dict[str, Any] = {
        "/v2/repository/index": [
            {"name": "m", "version": "1", "state": "READY"},
            {"name": "broken", "state": "UNAVAILABLE"},
        ],
        "/v2/models/m": METADATA,
        "/v2/models/m/infer": INFERENCE,
    }
    found = answers.get(request.path)
    status = 200 if found else 404
    yield build_answer(json.dumps(found or {"error": "unknown model"}).encode(), status)


async def test_requests_are_generated_from_the_metadata_of_the_only_model() -> None:
    async with serve(answer_v2) as server:
        tensors = TensorOptions(batch=2, shapes={"T": (1, 4)})
        options = TargetOptions(tensors=tensors, headers={"x-api-key": "k"})
        target = await build_target(server.address, "v2-http", options)
        outcome = await send_once(target)
    assert outcome == Outcome("200", True)
    assert target.description.model == "m"
    request = server.received[-1]
    assert request.headers["x-api-key"] == "k"
    inputs = {each["name"]: each for each in json.loads(request.body)["inputs"]}
    assert {name: each["shape"] for name, each in inputs.items()} == {
        "A": [2, 3],
        "N": [2],
        "T": [1, 4],
    }
    assert {name: len(each["data"]) for name, each in inputs.items()} == {"A": 6, "N": 2, "T": 4}
    assert all(isinstance(each, int) for each in inputs["N"]["data"])


async def test_unknown_model_is_explained_before_any_load() -> None:
    async with serve(answer_v2) as server:
        with pytest.raises(CommandFailed, match="model other cannot be read: 404 unknown model"):
            await build_target(server.address, "v2-http", TargetOptions(model="other"))


async def answer_without_outputs(request: Received) -> AsyncIterator[bytes]:
    yield build_answer(b"{}")


async def test_success_without_outputs_is_a_failure() -> None:
    async with serve(answer_without_outputs) as server:
        options = TargetOptions(model="m", bodies=({"inputs": []},))
        outcome = await send_once(await build_target(server.address, "v2-http", options))
    assert outcome == Outcome("200, invalid", False, "the answer has no outputs")


def build_event(text: str) -> bytes:
    body = {"choices": [{"delta": {"content": text}}]}
    return build_chunk(b"data: " + json.dumps(body).encode() + b"\n\n")


async def answer_openai(request: Received) -> AsyncIterator[bytes]:
    """The stream: a role, four tokens 20 ms apart of which one event is cut in two, usage."""
    if request.path == "/v1/models":
        yield build_answer(b'{"data": [{"id": "tiny"}]}')
        return
    body = json.loads(request.body)
    if not body["stream"]:
        yield build_answer(
            b'{"choices": [{}], "usage": {"prompt_tokens": 9, "completion_tokens": 4}}'
        )
        return
    yield STREAM_HEAD + build_chunk(b'data: {"choices": [{"delta": {"role": "assistant"}}]}\n\n')
    await asyncio.sleep(0.05)
    for number in range(4):
        if number:
            await asyncio.sleep(0.02)
        yield build_event(f"t{number}")
    half = b'data: {"choices": [], "usage": {"prompt_tokens": 9,'
    yield build_chunk(half)
    yield build_chunk(b' "completion_tokens": 4}}\n\ndata: [DONE]\n\n') + build_chunk(b"")


async def test_stream_has_first_token_and_gaps() -> None:
    async with serve(answer_openai) as server:
        options = TargetOptions(completion=CompletionOptions(prompt_tokens=7, max_tokens=4))
        target = await build_target(server.address, "openai", options)
        started = asyncio.get_running_loop().time()
        outcome = await target.send()
        await target.send(RequestSize(prompt_tokens=3, completion_tokens=2))
        await target.close()
    assert (outcome.status, outcome.is_ok) == ("200", True)
    assert (outcome.prompt_tokens, outcome.completion_tokens) == (9, 4)
    assert outcome.first_token_at is not None
    assert outcome.first_token_at - started >= 0.05
    assert len(outcome.token_gaps) == 3
    assert min(outcome.token_gaps) >= 0.015
    first, second = (json.loads(request.body) for request in server.received[1:])
    assert first["model"] == "tiny"
    assert (len(first["messages"][0]["content"].split()), first["max_tokens"]) == (7, 4)
    assert (len(second["messages"][0]["content"].split()), second["max_tokens"]) == (3, 2)
    assert first["stream_options"] == {"include_usage": True}


async def test_answer_without_stream_has_usage() -> None:
    async with serve(answer_openai) as server:
        options = TargetOptions(model="tiny", completion=CompletionOptions(is_stream=False))
        address = replace(server.address, path="/v1/completions")
        outcome = await send_once(await build_target(address, "openai", options))
    assert outcome == Outcome("200", True, prompt_tokens=9, completion_tokens=4)
    assert "prompt" in json.loads(server.received[0].body)


async def break_streams(request: Received) -> AsyncIterator[bytes]:
    match request.number:
        case 0:
            yield STREAM_HEAD + build_event("a") + build_chunk(b"")
        case 1:
            error = b'data: {"error": {"message": "out of memory"}}\n\n'
            yield STREAM_HEAD + build_event("a") + build_chunk(error) + build_chunk(b"")
        case 2:
            yield STREAM_HEAD + build_event("a")
            yield b""
        case _:
            yield build_answer(b'{"error": {"message": "slow down", "code": 429}}', 429)


async def test_broken_streams_are_failures() -> None:
    async with serve(break_streams) as server:
        target = await build_target(server.address, "openai", TargetOptions(model="tiny"))
        outcomes = [await target.send() for _ in range(4)]
        await target.close()
    assert [each.is_ok for each in outcomes] == [False] * 4
    assert [(each.status, each.message) for each in outcomes] == [
        ("200, broken stream", "the stream ended without [DONE]"),
        ("200, broken stream", '{"message":"out of memory"}'),
        ("connection lost", "the server closed the connection in the middle of the answer"),
        ("429", "slow down"),
    ]


async def answer_never(request: Received) -> AsyncIterator[bytes]:
    await asyncio.sleep(600)
    yield b""


async def test_request_over_its_time_limit_closes_its_connection() -> None:
    async with serve(answer_never) as server:
        address = replace(server.address, path="/x")
        target = await build_target(address, "http", TargetOptions())
        plan = LoadPlan(
            kind="closed", profile=build_constant_profile(1, 60), max_requests=2, timeout=0.1
        )
        recorder = Recorder()
        await LoadRun(target, plan, recorder).run()
    assert [sample.status for sample in recorder] == ["timeout", "timeout"]
    assert server.connections == 2
