"""The example of the engine on this machine's node: it starts, loses agents and recovers."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from kilonova.artifacts.builds import Build, save_build
from tests.cli.command import Kilonova
from tests.harness.access import ServerAccess
from tests.instances.engine.engine_processes import request

EXAMPLE = Path(__file__).parents[3] / "examples" / "instances" / "engine.yaml"
NAMESPACE = "/api/v1/namespaces/inference-engine"
INSTANCES = "/apis/inference-engine.groq.io/v1/namespaces/inference-engine/inferenceengineinstances"
TIMEOUT_SECONDS = 120.0
BUILD = Build(id="tiny-v1", model="tiny", agents=7)


@dataclass(frozen=True)
class EngineInstance:
    """The instance of the example, in a cluster of `kilonova up`."""

    access: ServerAccess

    def read(self, path: str) -> Any:
        code, found = self.access.request("GET", path)
        assert code == 200, found
        return found

    @property
    def status(self) -> Any:
        return self.read(f"{INSTANCES}/tiny").get("status", {})

    def create(self, kind: str, name: str, spec: object) -> tuple[int, Any]:
        """Create an object of our kinds; status and answer."""
        path = INSTANCES.replace("inferenceengineinstances", f"{kind.lower()}s")
        head = {"apiVersion": "inference-engine.groq.io/v1", "kind": kind}
        return self.access.request("POST", path, {**head, "metadata": {"name": name}, "spec": spec})

    def list_reasons(self, name: str) -> list[str]:
        """The reasons of an instance's conditions."""
        found = self.read(f"{INSTANCES}/{name}").get("status", {})
        return [each["reason"] for each in found.get("conditions", [])]

    def get_pod(self, role: str, index: str = "") -> Any:
        """The newest pod of a role, and of an index."""
        wanted = {"supernova.groq.io/model-instance": "tiny", "supernova.groq.io/role": role}
        wanted |= {"supernova.groq.io/agent-index": index} if index else {}
        found = [
            each
            for each in self.read(f"{NAMESPACE}/pods")["items"]
            if wanted.items() <= each["metadata"]["labels"].items()
        ]
        return max(found, key=lambda each: each["metadata"]["creationTimestamp"])

    def ask(self, pod: Any, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """A request to the engine in a pod; status 0 if it does not listen."""
        try:
            return request(8000, method, path, body, host=pod["status"]["podIP"])
        except OSError:
            return 0, {}

    def ask_conductor(self) -> tuple[int, Any]:
        body = {"model": "tiny", "prompt": "Tell me a story."}
        return self.ask(self.get_pod("conductor"), "POST", "/v1/completions", body)

    def list_missing(self) -> list[int]:
        """The agents that the conductor misses when it is asked."""
        return self.ask_conductor()[1].get("error", {}).get("missing_agents", [])

    def wait_for_answer(self) -> Any:
        """The answer of the conductor, once it has one: a busy machine loses agents."""
        wait_until(lambda: self.ask_conductor()[0] == 200)
        status, body = self.ask_conductor()
        return body if status == 200 else self.wait_for_answer()

    def wait_until_ready(self) -> None:
        """Wait until instance and conductor say so."""
        wait_until(lambda: self.status.get("phase") == "Ready" and self.ask_conductor()[0] == 200)


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineInstance]:
    """The ready instance; each test leaves it ready."""
    kilonova = Kilonova(tmp_path_factory.mktemp("home"))
    data, builds = kilonova.home / "data", kilonova.home / "builds"
    save_build(BUILD, builds)
    sources = ("--builds", builds, "--tokenizers", kilonova.home / "tokenizers")
    try:
        done = kilonova.detach(data, "--no-demo", "--process-node", *sources)
        assert done.code == 0, done.err
        access = ServerAccess.from_kubeconfig(data / "kubeconfig", kilonova.home / "admin")
        for body in yaml.safe_load_all(EXAMPLE.read_text()):
            path = "/api/v1/namespaces" if body["kind"] == "Namespace" else INSTANCES
            code, answer = access.request("POST", path, body)
            assert code == 201, answer
        found = EngineInstance(access)
        found.wait_until_ready()
        yield found
    finally:
        kilonova.stop_all()


def test_instance_answers_from_all_agents(instance: EngineInstance) -> None:
    instance.wait_until_ready()
    assert instance.status["targetAgents"] == 3
    wait_until(lambda: (instance.status["readyAgents"], instance.status["pendingAgents"]) == (3, 0))
    first, second = instance.wait_for_answer(), instance.wait_for_answer()
    assert first["choices"] == second["choices"]


def test_suspended_agent_is_named_until_it_goes_on(instance: EngineInstance) -> None:
    agent = instance.get_pod("agent", "1")
    pid = instance.ask(agent, "GET", "/health/live")[1]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: instance.list_missing() == [1])
    finally:
        os.kill(pid, signal.SIGCONT)
    instance.wait_until_ready()


def test_killed_agent_joins_again_after_its_container_restarts(instance: EngineInstance) -> None:
    agent = instance.get_pod("agent", "0")
    os.kill(instance.ask(agent, "GET", "/health/live")[1]["pid"], signal.SIGKILL)

    def has_restarted() -> bool:
        [container] = instance.get_pod("agent", "0")["status"]["containerStatuses"]
        return container["restartCount"] == 1

    wait_until(has_restarted)
    instance.wait_until_ready()


def test_deleted_agent_pod_is_recreated(instance: EngineInstance) -> None:
    before = instance.get_pod("agent", "2")["metadata"]
    code, _ = instance.access.request("DELETE", f"{NAMESPACE}/pods/{before['name']}")
    assert code == 200
    wait_until(lambda: instance.get_pod("agent", "2")["metadata"]["uid"] != before["uid"])
    instance.wait_until_ready()
    events = instance.read(f"{NAMESPACE}/events")["items"]
    assert f"Recreated 1 agent pod: pod {before['name']} was deleted" in {
        each["message"] for each in events if each["reason"] == "AgentPodsRecreated"
    }


def test_build_says_what_an_instance_leaves_out(instance: EngineInstance) -> None:
    spec = {"model": "tiny", "build": BUILD.id, "image": "engine"}
    assert instance.create("InferenceEngineInstance", "built", spec)[0] == 201
    wait_until(
        lambda: instance.read(f"{INSTANCES}/built").get("status", {}).get("targetAgents") == 7
    )
    lost = spec | {"build": "lost-v1"}
    assert instance.create("InferenceEngineInstance", "lost", lost)[0] == 201
    wait_until(lambda: "BuildNotFound" in instance.list_reasons("lost"))


def test_release_with_an_unknown_tokenizer_is_rejected(instance: EngineInstance) -> None:
    spec = {"model": "tiny", "build": BUILD.id, "tokenizer": "acme/tiny"}
    code, answer = instance.create("Release", "v1", spec)
    assert code == 422
    assert "acme_tiny: there is no such tokenizer; add it with" in answer["message"]


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"not within {TIMEOUT_SECONDS:.0f} s"
        time.sleep(0.1)
