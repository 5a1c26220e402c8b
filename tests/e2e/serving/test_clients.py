"""Clients of services on this machine: keys that change under load, quotas, jobs, canaries."""

import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.e2e.serving.traffic import (
    SUCCESS,
    build_identity,
    call,
    post,
    running_traffic,
)
from tests.harness.kubectl import Kubectl
from tests.harness.triton_client import run_client
from tests.serving.service_on_this_machine import ServingMachine, serving_machine, wait_until

TENSORS: dict[str, Any] = {"name": "main", "runtime": "ModelServer", "drain": "0s"}
LLM: dict[str, Any] = {
    "name": "llm",
    "runtime": "ModelServer",
    "protocol": "OpenAI",
    "args": ["--llm", "demo,decode=1ms"],
    "drain": "0s",
}
CHAT = "/v1/chat/completions"
QUESTION = json.dumps(
    {"model": "demo", "max_tokens": 20, "messages": [{"role": "user", "content": "Hello"}]}
).encode()
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
INDEX = """
import sys
from tritonclient import grpc

client = grpc.InferenceServerClient(sys.argv[1])
try:
    print(len(client.get_model_repository_index(as_json=True)["models"]))
except grpc.InferenceServerException as error:
    print(error.status(), "|", error.message())
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingMachine]:
    with serving_machine(tmp_path_factory.mktemp("home")) as started:
        yield started


@pytest.fixture
def kubectl(kubectl_path: Path, machine: ServingMachine, tmp_path: Path) -> Kubectl:
    return Kubectl(kubectl_path, machine.access.kubeconfig, tmp_path)


def serve(machine: ServingMachine, name: str, *groups: Any, **spec: Any) -> tuple[str, str]:
    """The addresses of a service for HTTP and gRPC, once it is ready."""
    machine.create({"metadata": {"name": name}, "spec": {"servers": list(groups), **spec}})
    status = machine.wait_for(name, lambda each: each.get("phase") == "Ready")
    return status["url"].removeprefix("http://"), status["grpcAddress"]


def digest(key: str) -> str:
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()


def patch_keys(kubectl: Kubectl, **data: str | None) -> None:
    """Set the digests of clients in the Secret; None removes one."""
    patch = {"stringData": {key: value for key, value in data.items() if value is not None}}
    removed = {key: None for key, value in data.items() if value is None}
    body = json.dumps({**patch, "data": removed} if removed else patch)
    done = kubectl(["patch", "secret", "keys", "--type=merge", "-p", body])
    assert done.code == 0, done.err


def test_keys_are_rotated_under_load_and_a_missing_secret_closes(
    machine: ServingMachine, kubectl: Kubectl
) -> None:
    old, new = secrets.token_hex(16), secrets.token_hex(16)
    assert kubectl(f"create secret generic keys --from-literal=team={digest(old)}").code == 0
    auth = {"apiKeys": {"secret": "keys"}}
    http, calls = serve(machine, "web", TENSORS, auth=auth)

    def ask(key: str) -> int:
        return post(http, headers={"x-api-key": key}).status

    wait_until(lambda: ask(old) == 200)
    assert post(http).status == 401
    assert ask(digest(old)) == 401, "who reads the Secret has no key"
    assert call(calls, "ModelInfer", build_identity())[0] is UNAUTHENTICATED
    assert call(calls, "RepositoryIndex")[0] is UNAUTHENTICATED
    with running_traffic(http, calls, headers={"x-api-key": old}) as traffic:
        traffic.wait_for_more(20)
        patch_keys(kubectl, next=digest(new))
        wait_until(lambda: ask(new) == 200)
        traffic.wait_for_more(20)
    assert set(traffic.outcomes) <= SUCCESS
    with running_traffic(http, calls, headers={"x-api-key": new}) as traffic:
        patch_keys(kubectl, team=None)
        wait_until(lambda: ask(old) == 401)
        traffic.wait_for_more(20)
    assert set(traffic.outcomes) <= SUCCESS
    assert kubectl("delete secret keys").code == 0
    wait_until(lambda: ask(new) == 503)
    assert call(calls, "ModelInfer", build_identity())[0] is grpc.StatusCode.UNAVAILABLE
    status = machine.wait_for("web", lambda each: each.get("phase") == "Degraded")
    (told,) = [each for each in status["conditions"] if each["type"] == "GatewayReady"]
    assert told["message"].endswith("auth.apiKeys.secret: Secret 'keys' does not exist")
    assert kubectl(f"create secret generic keys --from-literal=team={digest(new)}").code == 0
    wait_until(lambda: ask(new) == 200)
    machine.delete("web")


def test_tokens_are_counted_by_client_as_servers_report_them(machine: ServingMachine) -> None:
    limits = {"tokens": {"perMinute": 60, "burst": 60}}
    http, _ = serve(machine, "chat", LLM, limits=limits)
    answers = [post(http, CHAT, QUESTION) for _ in range(8)]
    statuses = [each.status for each in answers]
    # Each request costs a word of prompt at least and 20 of the answer, paid by the next one.
    accepted = statuses.index(429)
    assert 2 <= accepted <= 4, statuses
    assert set(statuses[:accepted]) == {200}
    assert int(answers[accepted].headers["retry-after"]) > 0
    machine.delete("chat")


def test_jobs_are_turned_away_under_load_and_those_that_run_go_on(
    machine: ServingMachine, tritonclient_part: Path
) -> None:
    slow = {**TENSORS, "args": ["--model", "identity,kind=slow,time=300ms,instances=1"]}
    load = {"inFlightPerReplica": 2, "jobAdmission": True, "retryAfter": "3s"}
    http, calls = serve(machine, "sonic", slow, limits={"load": load})
    found = run_client(tritonclient_part, INDEX, calls)
    assert found.stdout == "1\n", found.stderr
    with running_traffic(http, calls, clients=4) as traffic:
        wait_until(lambda: call(calls, "RepositoryIndex")[0] is not grpc.StatusCode.OK)
        reason = "the load is above its limit: no further jobs for now"
        assert call(calls, "RepositoryIndex") == (grpc.StatusCode.RESOURCE_EXHAUSTED, reason)
        found = run_client(tritonclient_part, INDEX, calls)
        assert found.stdout == f"StatusCode.RESOURCE_EXHAUSTED | {reason}\n", found.stderr
    assert set(traffic.outcomes) <= SUCCESS, "jobs that run are not disturbed"
    wait_until(lambda: call(calls, "RepositoryIndex")[0] is grpc.StatusCode.OK)
    machine.delete("sonic")


def test_weights_of_a_canary_change_under_load(machine: ServingMachine) -> None:
    canary = {**TENSORS, "name": "canary", "args": ["--model", "canary,kind=identity"]}

    def routes(weight: int) -> list[Any]:
        shares = [("main", 100 - weight), ("canary", weight)]
        return [{"backends": [{"server": name, "weight": share} for name, share in shares]}]

    stable = {**TENSORS, "args": ["--model", "stable,kind=identity"]}
    http, _ = serve(machine, "split", stable, canary, routes=routes(0))
    machine.wait_for("split", lambda each: each.get("ready") == 2)

    def count(number: int = 60) -> Counter[int]:
        """A model that only the canary has is found (200) as often as the canary is asked."""
        path = "/v2/models/canary/infer"
        return Counter(post(http, path).status for _ in range(number))

    wait_until(lambda: set(count(10)) == {404})
    machine.update("split", routes=routes(50))
    wait_until(lambda: count(10)[200] > 0)
    shares = count()
    assert set(shares) == {200, 404}
    assert 10 <= shares[200] <= 50
    machine.update("split", routes=routes(100))
    wait_until(lambda: set(count(10)) == {200})
    # A route to a group that is removed is refused as a whole, and what there is goes on.
    path = "/apis/serving.kilonova.dev/v1alpha1/namespaces/default/inferenceservices/split"
    _, found = machine.access.request("GET", path)
    found["spec"]["servers"] = [stable]
    code, answer = machine.access.request("PUT", path, found)
    assert (code, "a group that servers does not have" in answer["message"]) == (422, True)
    assert set(count(10)) == {200}
    machine.delete("split")


def test_clusters_of_a_machine_serve_the_same_name(machine: ServingMachine, tmp_path: Path) -> None:
    http, calls = serve(machine, "twin", TENSORS)
    with serving_machine(tmp_path) as other:
        their_http, their_calls = serve(other, "twin", TENSORS)
        assert {http, calls}.isdisjoint({their_http, their_calls})
        with running_traffic(http, calls) as ours, running_traffic(their_http, their_calls):
            ours.wait_for_more(20)
            other.delete("twin")
            wait_until(lambda: not is_open(their_http))
            ours.wait_for_more(20)
    assert set(ours.outcomes) <= SUCCESS
    machine.delete("twin")


def is_open(address: str) -> bool:
    try:
        return post(address).status == 200
    except OSError:
        return False
