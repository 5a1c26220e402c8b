"""Inference services whose parts are killed, stopped and away, under load."""

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import psutil
import pytest

from tests.e2e.serving.traffic import (
    SUCCESS,
    Outcome,
    build_identity,
    call,
    post,
    running_traffic,
)
from tests.serving.service_on_this_machine import (
    ServingMachine,
    list_listeners,
    serving_machine,
    wait_until,
)

GROUP: dict[str, Any] = {"name": "main", "runtime": "ModelServer", "drain": "1s"}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingMachine]:
    with serving_machine(tmp_path_factory.mktemp("home")) as started:
        yield started


@pytest.fixture(scope="module")
def addresses(machine: ServingMachine) -> tuple[str, str]:
    """A service with two servers, over HTTP and gRPC."""
    gateway = {
        "timeout": "4s",
        "healthCheck": {"interval": "200ms", "timeout": "200ms", "unhealthyThreshold": 2},
    }
    spec = {"servers": [{**GROUP, "replicas": 2}], "gateway": gateway}
    machine.create({"metadata": {"name": "web"}, "spec": spec})
    return wait_for_addresses(machine, "web", ready=2)


def wait_for_addresses(machine: ServingMachine, name: str, ready: int) -> tuple[str, str]:
    def is_there(status: Any) -> bool:
        return status.get("ready") == ready and status.get("gateways") == 1

    status = machine.wait_for(name, is_there)
    return status["url"].removeprefix("http://"), status["grpcAddress"]


def find_server(machine: ServingMachine, name: str) -> psutil.Process:
    """The process of a server."""
    pod = machine.list_pods(name, "server")[0]
    [process] = list_listeners(f"http://{pod['status']['podIP']}:8000")
    return process


def list_failures(outcomes: Counter[Outcome]) -> dict[Outcome, int]:
    return {key: count for key, count in outcomes.items() if key not in SUCCESS}


def test_requests_flow_while_kilonova_is_killed_and_comes_back(
    machine: ServingMachine, addresses: tuple[str, str]
) -> None:
    before = {each["metadata"]["uid"] for each in machine.list_pods("web")}
    with running_traffic(*addresses) as traffic:
        traffic.wait_for_more(40)
        os.kill(json.loads((machine.data / "running.json").read_bytes())["pid"], signal.SIGKILL)
        traffic.wait_for_more(100)
        machine.start()
        traffic.wait_for_more(40)
        machine.wait_for("web", lambda each: each.get("ready") == 2)
        traffic.wait_for_more(40)
    assert list_failures(traffic.outcomes) == {}
    assert {each["metadata"]["uid"] for each in machine.list_pods("web")} == before
    # It is still the control plane of the gateway that it found.
    machine.update("web", limits={"maxBodyBytes": 1000})
    wait_until(lambda: post(addresses[0], body=bytes(5000)).status == 413)
    machine.update("web", limits={})
    wait_until(lambda: post(addresses[0], body=bytes(5000)).status == 400)


def test_killed_server_fails_no_request(
    machine: ServingMachine, addresses: tuple[str, str]
) -> None:
    with running_traffic(*addresses, clients=4) as traffic:
        traffic.wait_for_more(100)
        find_server(machine, "web").kill()
        traffic.wait_for_more(200)
    assert list_failures(traffic.outcomes) == {}
    machine.wait_for("web", lambda each: each.get("ready") == 2)


def test_server_that_hangs_gets_no_further_request(
    machine: ServingMachine, addresses: tuple[str, str]
) -> None:
    """What it has got already ends with the time limit of the gateway."""
    server = find_server(machine, "web")
    try:
        with running_traffic(*addresses, clients=4) as traffic:
            traffic.wait_for_more(100)
            server.suspend()
            traffic.wait_for_more(400)
    finally:
        server.resume()
    failed = list_failures(traffic.outcomes)
    assert failed.keys() <= {("HTTP", 504), ("gRPC", grpc.StatusCode.DEADLINE_EXCEEDED)}, failed
    assert sum(failed.values()) <= 2 * 4, "a client met it twice"
    machine.wait_for("web", lambda each: each.get("ready") == 2)


def test_killed_gateway_is_back_at_its_address(
    machine: ServingMachine, addresses: tuple[str, str]
) -> None:
    [gateway] = list_listeners(addresses[0])
    with running_traffic(*addresses) as traffic:
        traffic.wait_for_more(40)
        gateway.kill()
        wait_until(lambda: bool(list_listeners(addresses[0])))
        traffic.wait_for_more(100)
    down = list_failures(traffic.outcomes)
    # With one gateway, requests fail while it is away: all of them because nothing listens.
    assert {key[1] for key in down} <= {
        grpc.StatusCode.UNAVAILABLE,
        "ConnectionRefusedError",
        "ConnectionResetError",
        "RemoteDisconnected",
    }
    [after] = list_listeners(addresses[0])
    assert after.pid != gateway.pid
    assert post(addresses[0]).status == 200
    assert call(addresses[1], "ModelInfer", build_identity())[0] is grpc.StatusCode.OK


def test_update_of_servers_under_load_fails_no_request(
    machine: ServingMachine, addresses: tuple[str, str]
) -> None:
    before = {each["metadata"]["uid"] for each in machine.list_pods("web", "server")}
    changed = [{**GROUP, "replicas": 2, "env": [{"name": "A", "value": "1"}]}]

    def is_updated() -> bool:
        pods = machine.list_pods("web", "server")
        return len(pods) == 2 and before.isdisjoint(each["metadata"]["uid"] for each in pods)

    with running_traffic(*addresses) as traffic:
        traffic.wait_for_more(40)
        machine.update("web", servers=changed)
        wait_until(is_updated)
        machine.wait_for("web", lambda each: each.get("ready") == 2)
        traffic.wait_for_more(40)
    assert list_failures(traffic.outcomes) == {}


def test_renamed_group_takes_over_without_a_failed_request(
    machine: ServingMachine, addresses: tuple[str, str]
) -> None:
    renamed = [{**GROUP, "name": "other", "replicas": 1}]
    with running_traffic(*addresses) as traffic:
        traffic.wait_for_more(40)
        machine.update("web", servers=renamed)
        machine.wait_for(
            "web",
            lambda each: (
                each.get("ready") == 1 and [group["name"] for group in each["servers"]] == ["other"]
            ),
        )
        traffic.wait_for_more(60)
    # Requests are held until the first server of the new group is ready.
    assert list_failures(traffic.outcomes) == {}


def test_deleted_service_leaves_nothing_and_its_name_is_free(
    machine: ServingMachine, addresses: tuple[str, str]
) -> None:
    programs = [*list_listeners(addresses[0]), find_server(machine, "web")]
    with running_traffic(*addresses) as traffic:
        traffic.wait_for_more(20)
        machine.delete("web")
        wait_until(lambda: not list_listeners(addresses[0]))
    assert not any(each.is_running() for each in programs)
    machine.create({"metadata": {"name": "web"}, "spec": {"servers": [GROUP]}})
    again = wait_for_addresses(machine, "web", ready=1)
    assert post(again[0]).status == 200
    machine.delete("web")


def test_five_hundred_requests_at_zero_are_answered(machine: ServingMachine) -> None:
    rest = {"minReplicas": 0, "maxReplicas": 1, "scaleToZero": {"idleAfter": "1s"}}
    spec = {"servers": [{**GROUP, "replicas": 0, "autoscaling": rest}]}
    machine.create({"metadata": {"name": "rest"}, "spec": spec})
    status = machine.wait_for("rest", lambda each: each.get("phase") == "Idle" and each["gateways"])
    address = status["url"].removeprefix("http://")
    with ThreadPoolExecutor(500) as clients:
        answers = Counter(clients.map(lambda _: post(address).status, range(500)))
    assert answers == {200: 500}
    machine.delete("rest")
