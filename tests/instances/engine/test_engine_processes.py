"""An engine of real processes starts, loses agents and its conductor, and recovers."""

import http.client
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kilonova.instances.engine.tokens import (
    advance_context,
    choose_token,
    compute_shard,
    start_context,
)
from kilonova.openai_api.text import END, join_token
from tests.harness.http_probe import fetch
from tests.instances.engine.engine_processes import EngineProcesses, request

Start = Callable[..., EngineProcesses]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineProcesses]:
    """An engine of three agents, of which nothing runs yet."""
    engine = EngineProcesses(tmp_path)
    yield engine
    engine.stop_all()


def expect_text(engine: EngineProcesses, prompt: str, max_tokens: int) -> str:
    """The answer, computed without processes."""
    context, text = start_context(engine.model, prompt), ""
    for position in range(max_tokens):
        shards = [
            compute_shard(engine.model, index, engine.agents, context)
            for index in range(engine.agents)
        ]
        token = choose_token(shards, position)
        if token == END:
            break
        text += join_token(token, position)
        context = advance_context(context, token)
    return text


def test_answer_is_computed_from_all_agents(engine: EngineProcesses) -> None:
    engine.start_all()
    assert engine.get("/v1/models")[1]["data"][0]["id"] == "tiny"
    expected = expect_text(engine, "Tell me a story.", 20)
    for _ in range(2):
        status, body = engine.complete("Tell me a story.", max_tokens=20)
        assert (status, body["choices"][0]["text"]) == (200, expected)
    scraped = fetch(f"http://127.0.0.1:{engine.port}/metrics")[1].decode()
    assert 'kilonova_engine_agents{state="joined"} 3.0' in scraped
    assert 'kilonova_engine_requests_total{code="200"} 2.0' in scraped


def test_chat_is_streamed_as_it_is_answered_whole(engine: EngineProcesses) -> None:
    engine.start_all()
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "Tell me a story."}],
        "max_tokens": 12,
    }
    status, whole = request(engine.port, "POST", "/v1/chat/completions", body)
    assert status == 200
    streamed = body | {"stream": True, "stream_options": {"include_usage": True}}
    *events, last = stream(engine, "/v1/chat/completions", streamed)
    assert last == "[DONE]"
    chunks = [json.loads(each) for each in events]
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert chunks[-1]["usage"] == whole["usage"]
    deltas = [each["choices"][0]["delta"].get("content", "") for each in chunks[1:-1]]
    assert "".join(deltas) == whole["choices"][0]["message"]["content"]
    assert len(deltas) == whole["usage"]["completion_tokens"]
    assert chunks[-2]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"]


def test_missing_agents_are_named_until_they_join(engine: EngineProcesses) -> None:
    engine.start_conductor()
    engine.start_agent(1)
    engine.wait_until_missing(0, 2)
    assert engine.get("/health/ready") == (
        503,
        {"ready": False, "agents": 3, "joined": 1, "missing": [0, 2]},
    )
    status, body = engine.complete("hello")
    assert status == 503
    assert body["error"]["message"] == "the instance is not ready: agents 0, 2 of 3 missing"
    assert body["error"]["missing_agents"] == [0, 2]
    engine.start_agent(0)
    engine.start_agent(2)
    engine.wait_until_ready()
    assert engine.complete("hello")[0] == 200


def test_killed_agent_is_missed_until_it_returns(engine: EngineProcesses) -> None:
    agents = engine.start_all()
    before = engine.complete("hello")
    agents[1].kill()
    engine.wait_until_missing(1)
    status, body = engine.complete("hello")
    assert (status, body["error"]["missing_agents"]) == (503, [1])
    engine.start_agent(1)
    engine.wait_until_ready()
    assert engine.complete("hello")[1]["choices"] == before[1]["choices"]


def test_suspended_agent_is_lost_by_its_heartbeats(engine: EngineProcesses) -> None:
    engine.heartbeat = 1.0
    agents = engine.start_all()
    agents[2].send_signal(signal.SIGSTOP)
    # A request that waits for it is not left hanging, either.
    status, body = engine.complete("hello")
    assert (status, body["error"]["missing_agents"]) == (503, [2])
    engine.wait_until_missing(2)
    agents[2].send_signal(signal.SIGCONT)
    engine.wait_until_ready()


def test_agents_join_again_when_the_conductor_restarts(engine: EngineProcesses) -> None:
    conductor = None
    agents = [engine.start_agent(index) for index in range(3)]
    for _ in range(2):
        if conductor is not None:
            conductor.kill()
        conductor = engine.start_conductor()
        engine.wait_until_ready()
        assert engine.complete("hello")[0] == 200
    assert all(each.is_running() for each in agents)


def test_second_agent_of_an_index_waits_for_it(engine: EngineProcesses) -> None:
    agents = engine.start_all()
    second = engine.start_agent(0)
    second.wait_until(lambda: "agent 0 has joined already" in second.log.read_text())
    assert engine.complete("hello")[0] == 200
    agents[0].kill()
    second.wait_until(lambda: '"message":"joined"' in second.log.read_text())
    engine.wait_until_ready()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "other"), "the agent has model 'other', and the conductor 'tiny'"),
        (("--agents", "4"), "the agent expects 4 agents, and the conductor 3"),
        (("--agents", "4", "--index", "3"), "the agent expects 4 agents"),
        (("--index", "3"), "--index (ENGINE_AGENT_INDEX) is 3: use 0 to 2"),
        (("--conductor", "localhost:port"), "(ENGINE_CONDUCTOR) is 'localhost:port': write HOST"),
    ],
)
def test_agent_with_wrong_configuration_ends_with_the_reason(
    engine: EngineProcesses, words: tuple[str, ...], message: str
) -> None:
    engine.start_conductor()
    agent = engine.start_agent(0, *words)
    assert agent.wait() != 0
    assert message in agent.log.read_text()
    assert engine.get_status("/health/live") == 200


def test_pods_of_an_instance_run_by_their_variables(engine: EngineProcesses) -> None:
    joins = {"ENGINE_JOIN_PORT": str(engine.join_port), "ENGINE_PORT": str(engine.port)}
    engine.start_role("conductor", joins)
    for index in range(3):
        conductor = f"127.0.0.1:{engine.join_port}"
        variables = {"ENGINE_AGENT_INDEX": str(index), "ENGINE_CONDUCTOR": conductor}
        engine.start_role("agent", {**variables, "ENGINE_PORT": "0"})
    engine.wait_until_ready()
    assert engine.complete("hello")[0] == 200


def test_missing_variable_is_named(engine: EngineProcesses) -> None:
    agent = engine.start_role("agent", {"ENGINE_CONDUCTOR": "localhost"})
    assert agent.wait() == 2
    assert agent.log.read_text() == (
        "kilonova: ENGINE_AGENT_INDEX is '': write a number from 0 to 65535\n"
    )


def test_arguments_of_a_pod_are_those_of_the_command(engine: EngineProcesses) -> None:
    variables = {"ENGINE_AGENT_INDEX": "1", "ENGINE_CONDUCTOR": "localhost"}
    agent = engine.start_role("agent", variables, "agent", "--index", "3")
    assert agent.wait() == 2
    assert agent.log.read_text() == (
        "kilonova: --index (ENGINE_AGENT_INDEX) is 3: use 0 to 2, there are 3 agents\n"
    )


def test_port_in_use_is_named(engine: EngineProcesses) -> None:
    engine.start_conductor()
    second = EngineProcesses(engine.folder, port=engine.port)
    process = second.start_agent(0, "--port", str(engine.port))
    assert process.wait() == 1
    assert f"kilonova: --port {engine.port}: address already in use" in process.log.read_text()


def test_terminated_processes_end_with_success(engine: EngineProcesses) -> None:
    agents = engine.start_all()
    conductor = engine.started[-1]
    for process in (conductor, agents[0]):
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
        assert "Traceback" not in process.log.read_text()


def stream(engine: EngineProcesses, path: str, body: object) -> Iterator[str]:
    """The data of server-sent events."""
    connection = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=30)
    try:
        connection.request("POST", path, json.dumps(body))
        reply = connection.getresponse()
        assert reply.status == 200
        assert reply.getheader("content-type") == "text/event-stream"
        for line in reply:
            if text := line.decode().strip():
                yield text.removeprefix("data: ")
    finally:
        connection.close()
