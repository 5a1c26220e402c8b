"""A service on this machine: real Envoy, a real server, and programs of this machine as clients."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.serving.service_on_this_machine import (
    ServingMachine,
    list_listeners,
    request,
    serving_machine,
    wait_until,
)

EXAMPLE = Path(__file__).parents[2] / "examples" / "serving" / "service.yaml"
LLM: dict[str, Any] = {
    "name": "llm",
    "runtime": "ModelServer",
    "protocol": "OpenAI",
    "args": ["--llm", "demo"],
    "drain": "2s",
}
QUESTION: dict[str, Any] = {
    "model": "demo",
    "messages": [{"role": "user", "content": "Hello"}],
    "max_tokens": 4,
}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingMachine]:
    """A machine, whose image table knows a gateway that is not installed."""
    folder = tmp_path_factory.mktemp("home")
    entry = {
        "image": "example.com/lost-envoy",
        "programs": {"envoy": "no-such-envoy"},
        "install": "pip install 'kilonova[serving]'",
    }
    images = folder / "images.yaml"
    images.write_text(yaml.safe_dump({"images": [entry]}))
    with serving_machine(folder, "--images", str(images)) as started:
        yield started


@pytest.fixture(scope="module")
def url(machine: ServingMachine) -> str:
    """The address of a ready service."""
    machine.create({"metadata": {"name": "chat"}, "spec": {"servers": [LLM]}})
    status = machine.wait_for("chat", lambda each: each.get("phase") == "Ready")
    return status["url"]


def ask(url: str) -> int:
    """The status of an answer to a question."""
    return request(f"{url}/v1/chat/completions", QUESTION)[0]


def test_programs_of_this_machine_reach_envoy_itself(machine: ServingMachine, url: str) -> None:
    assert url.startswith("http://127.96.")
    status, answer = request(f"{url}/v1/chat/completions", QUESTION)
    assert status == 200
    assert answer["usage"]["completion_tokens"] == 4
    [listener] = list_listeners(url)
    assert os.path.basename(listener.exe()) == "envoy"


def test_killed_gateway_starts_again_at_the_same_address(machine: ServingMachine, url: str) -> None:
    [before] = list_listeners(url)
    os.kill(before.pid, signal.SIGKILL)
    wait_until(lambda: ask(url) == 200)
    [after] = list_listeners(url)
    assert after.pid != before.pid
    assert os.path.basename(after.exe()) == "envoy"


def test_gateways_share_an_address_and_leave_it_to_one_another(
    machine: ServingMachine, url: str
) -> None:
    """The kernel resets what one of them has not accepted yet when it stops to listen, so a client
    connects again, as all do; no request is lost that was sent."""
    machine.wait_for("chat", lambda each: each["gateways"] == 1)
    machine.update("chat", gateway={"replicas": 2})
    machine.wait_for("chat", lambda each: each["gateways"] == 2)
    wait_until(lambda: len(list_listeners(url)) == 2)
    machine.update("chat", gateway={"replicas": 1})
    answers = [ask(url)]
    while len(machine.list_pods("chat", "gateway")) > 1:
        answers.append(ask(url) or ask(url))
    assert set(answers) == {200}
    [listener] = list_listeners(url)
    assert os.path.basename(listener.exe()) == "envoy"


def test_gateway_serves_while_kilonova_restarts(machine: ServingMachine, url: str) -> None:
    wait_until(lambda: len(list_listeners(url)) == 1)
    [before] = list_listeners(url)
    done = machine.kilonova("down", "--keep-pods", "--data", machine.data)
    assert done.code == 0, done.err
    assert ask(url) == 200
    machine.start()
    machine.wait_for("chat", lambda each: each.get("phase") == "Ready")
    [after] = list_listeners(url)
    assert after.pid == before.pid
    assert ask(url) == 200


def test_example_goes_to_zero_and_answers_the_next_request(machine: ServingMachine) -> None:
    body = yaml.safe_load(EXAMPLE.read_text())
    [group] = body["spec"]["servers"]
    group["autoscaling"]["scaleToZero"]["idleAfter"] = "1s"
    group["drain"] = "1s"
    body["metadata"]["name"] = "elastic"
    machine.create(body)
    status = machine.wait_for(
        "elastic", lambda each: each.get("phase") == "Idle" and not each["replicas"]
    )
    assert {each["reason"] for each in status["conditions"] if each["type"] == "Ready"} == {
        "ScaledToZero"
    }
    # It is held until a server is ready.
    assert ask(status["url"]) == 200
    machine.wait_for("elastic", lambda each: each["phase"] == "Idle")
    machine.delete("elastic")


def test_gateway_that_is_not_installed_says_how_to_install_it(machine: ServingMachine) -> None:
    spec = {"servers": [{**LLM, "replicas": 0}], "gateway": {"image": "example.com/lost-envoy"}}
    machine.create({"metadata": {"name": "lost"}, "spec": spec})

    def is_explained(status: Any) -> bool:
        conditions = {each["type"]: each for each in status.get("conditions", [])}
        message = conditions.get("GatewayReady", {}).get("message", "")
        return message.endswith(
            "it runs no-such-envoy, which is not found on this machine: "
            "pip install 'kilonova[serving]'"
        )

    machine.wait_for("lost", is_explained)
    machine.delete("lost")
