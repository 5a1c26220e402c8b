"""The same scenarios on kube-controller-manager and on ours: the same final state.

There are no kubelets: the scenario itself sets the statuses of pods.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import pytest

from tests.harness.access import ServerAccess
from tests.harness.control_plane import ControlPlane
from tests.harness.embedded_server import EmbeddedServer

CONTROLLERS = ",".join(
    f"{name}-controller"
    for name in (
        "garbage-collector",
        "namespace",
        "serviceaccount",
        "replicaset",
        "job",
        "disruption",
        "resourcequota",
    )
)
TIMEOUT = 60.0
TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
UIDS = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ENDINGS = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b")


class ControlPlaneSide:
    """One server, in a namespace of the scenario's own."""

    def __init__(self, access: ServerAccess, namespace: str) -> None:
        self.access = access
        self.namespace = namespace
        self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        self.wait_until(lambda: access.request("GET", account)[0] == 200)

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        access = self.access
        connection = HTTPSConnection(
            access.host, access.port, timeout=30, context=access.ssl_context()
        )
        with closing(connection):
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {"content-type": kind})
            reply = connection.getresponse()
            answer = json.loads(reply.read())
        assert reply.status < 300, answer
        return answer

    def path(self, resource: str, name: str = "", part: str = "") -> str:
        group, _, plural = resource.rpartition("/")
        root = f"/apis/{group}" if group else "/api/v1"
        return "/".join(filter(None, (root, "namespaces", self.namespace, plural, name, part)))

    def create(self, resource: str, body: Any) -> Any:
        return self.ask("POST", self.path(resource), body)

    def get(self, resource: str, name: str) -> Any:
        return self.ask("GET", self.path(resource, name))

    def pods(self) -> list[Any]:
        return self.ask("GET", self.path("pods"))["items"]

    def patch(self, resource: str, name: str, body: Any, part: str = "") -> Any:
        return self.ask(
            "PATCH", self.path(resource, name, part), body, "application/merge-patch+json"
        )

    def running(self, count: int) -> list[Any]:
        """So many pods that have not ended, in the order of their index or name."""

        def found() -> list[Any]:
            pods = [
                pod
                for pod in self.pods()
                if pod["status"].get("phase") not in ("Succeeded", "Failed")
                and "deletionTimestamp" not in pod["metadata"]
            ]
            return pods if len(pods) == count else []

        self.wait_until(lambda: bool(found()) or count == 0)
        return sorted(found(), key=lambda pod: pod["metadata"]["name"])

    def end(self, pod: Any, phase: str, code: int = 0) -> None:
        """Report that a pod has ended."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        state = {"terminated": {"exitCode": code, "finishedAt": now}}
        container = {
            "name": "main",
            "image": "i",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": state,
        }
        status = {"phase": phase, "containerStatuses": [container]}
        self.patch("pods", pod["metadata"]["name"], {"status": status}, "status")

    def make_ready(self, pod: Any) -> None:
        condition = {"type": "Ready", "status": "True"}
        status = {"phase": "Running", "conditions": [condition]}
        self.patch("pods", pod["metadata"]["name"], {"status": status}, "status")

    def wait_finished(self, name: str) -> Any:
        """The status of a finished Job."""

        def done() -> bool:
            conditions = self.get("batch/v1/jobs", name)["status"].get("conditions", [])
            return any(each["type"] in ("Complete", "Failed") for each in conditions)

        self.wait_until(done)
        return self.get("batch/v1/jobs", name)["status"]

    def read_events(self, name: str) -> list[tuple[str, str, str]]:
        """The events of an object, in any order."""
        query = f"?fieldSelector=involvedObject.name={name}"
        items = self.ask("GET", self.path("events") + query)["items"]
        return sorted(
            (each["type"], each["reason"], ENDINGS.sub("-*", each["message"]))
            for each in items
            for _ in range(each.get("count") or 1)
        )

    def wait_until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not holds():
            assert time.monotonic() < deadline, f"not so after {TIMEOUT:g} s"
            time.sleep(0.05)


def job(**spec: Any) -> Any:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}}
    return {"metadata": {"name": "j"}, "spec": {"template": template, **spec}}


def plain_job(side: ControlPlaneSide) -> Any:
    side.create("batch/v1/jobs", job(completions=3, parallelism=2))
    for pod in side.running(2):
        side.end(pod, "Succeeded")
    for pod in side.running(1):
        side.end(pod, "Succeeded")
    return side.wait_finished("j"), _ended(side), side.read_events("j")


def failing_job(side: ControlPlaneSide) -> Any:
    side.create("batch/v1/jobs", job(completions=2, parallelism=2, backoffLimit=0))
    first, _ = side.running(2)
    side.end(first, "Failed", 3)
    return side.wait_finished("j"), _ended(side), side.read_events("j")


def fatal_exit_code(side: ControlPlaneSide) -> Any:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    desired = job(podFailurePolicy={"rules": [rule]}, parallelism=1, completions=1)
    side.create("batch/v1/jobs", desired)
    (pod,) = side.running(1)
    side.end(pod, "Failed", 42)
    return side.wait_finished("j"), _ended(side), side.read_events("j")


def enough_indexes(side: ControlPlaneSide) -> Any:
    policy = {"rules": [{"succeededIndexes": "0"}]}
    side.create(
        "batch/v1/jobs",
        job(completionMode="Indexed", completions=3, parallelism=3, successPolicy=policy),
    )
    side.end(side.running(3)[0], "Succeeded")
    return side.wait_finished("j"), _ended(side), side.read_events("j")


def failed_indexes(side: ControlPlaneSide) -> Any:
    side.create(
        "batch/v1/jobs",
        job(completionMode="Indexed", completions=2, parallelism=2, backoffLimitPerIndex=0),
    )
    first, second = side.running(2)
    side.end(first, "Failed", 1)
    side.end(second, "Succeeded")
    return side.wait_finished("j"), _ended(side), side.read_events("j")


def suspended_job(side: ControlPlaneSide) -> Any:
    side.create("batch/v1/jobs", job(suspend=True))
    side.wait_until(lambda: "conditions" in side.get("batch/v1/jobs", "j").get("status", {}))
    before = side.get("batch/v1/jobs", "j")["status"]
    side.patch("batch/v1/jobs", "j", {"spec": {"suspend": False}})
    (pod,) = side.running(1)
    side.end(pod, "Succeeded")
    return before, side.wait_finished("j"), side.read_events("j")


def a_new_indexed_pod(side: ControlPlaneSide) -> Any:
    side.create("batch/v1/jobs", job(completionMode="Indexed", completions=1, parallelism=1))
    (pod,) = side.running(1)
    metadata = pod["metadata"]
    kept = ("labels", "annotations", "ownerReferences", "finalizers", "generateName")
    return (
        [metadata.get(field) for field in kept],
        pod["spec"]["hostname"],
        pod["spec"]["containers"][0]["env"],
    )


def budget(side: ControlPlaneSide) -> Any:
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "i"}]},
    }
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    side.create("apps/v1/replicasets", {"metadata": {"name": "web"}, "spec": spec})
    pods = side.running(3)
    for pod in pods:
        side.make_ready(pod)
    desired = {"maxUnavailable": "34%", "selector": {"matchLabels": labels}}
    side.create("policy/v1/poddisruptionbudgets", {"metadata": {"name": "b"}, "spec": desired})

    def allows(count: int) -> bool:
        status = side.get("policy/v1/poddisruptionbudgets", "b").get("status", {})
        return status.get("disruptionsAllowed") == count and status.get("currentHealthy", 0) > 0

    side.wait_until(lambda: allows(2))
    before = side.get("policy/v1/poddisruptionbudgets", "b")["status"]
    side.patch("pods", pods[0]["metadata"]["name"], UNREADY, "status")
    side.wait_until(lambda: allows(1))
    return before, side.get("policy/v1/poddisruptionbudgets", "b")["status"]


UNREADY = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}


def quota(side: ControlPlaneSide) -> Any:
    hard = {"pods": "2", "count/pods": "5", "configmaps": "9", "requests.cpu": "1500m"}
    side.create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}})

    def uses(pods: str) -> bool:
        used = side.get("resourcequotas", "q").get("status", {}).get("used", {})
        return used.get("pods") == pods

    side.wait_until(lambda: uses("0"))
    resources = {"requests": {"cpu": "500m"}}
    for name in ("a", "b"):
        container = {"name": "main", "image": "i", "resources": resources}
        side.create("pods", {"metadata": {"name": name}, "spec": {"containers": [container]}})
    side.wait_until(lambda: uses("2"))
    full = side.get("resourcequotas", "q")["status"]
    side.ask("DELETE", side.path("pods", "a"))
    side.end({"metadata": {"name": "b"}}, "Succeeded")
    side.wait_until(lambda: uses("0"))
    return full, side.get("resourcequotas", "q")["status"]


def _ended(side: ControlPlaneSide) -> Any:
    """The pods that are left when the Job is finished."""
    side.wait_until(lambda: not any("deletionTimestamp" in p["metadata"] for p in side.pods()))
    return sorted((p["status"]["phase"], p["metadata"].get("finalizers")) for p in side.pods())


@pytest.fixture(scope="module")
def accesses(
    control_plane_binaries: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[ServerAccess, ServerAccess]]:
    """A genuine control plane and an embedded one, with the controllers that are compared."""
    folder: Path = tmp_path_factory.mktemp("beside")
    options = ("--port", "0", f"--controllers={CONTROLLERS}")
    with (
        ControlPlane.start(folder / "genuine", controllers=CONTROLLERS) as plane,
        EmbeddedServer.start(folder / "embedded", *options) as server,
    ):
        yield plane.access, server.access


def normalize(value: Any) -> Any:
    """Without what no two clusters have in common."""
    if isinstance(value, dict):
        return {key: normalize(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [normalize(item) for item in value]
    if isinstance(value, str):
        return ENDINGS.sub("-*", UIDS.sub("<uid>", TIMES.sub("<time>", value)))
    return value


@pytest.mark.parametrize(
    "run_scenario",
    [
        plain_job,
        failing_job,
        fatal_exit_code,
        enough_indexes,
        failed_indexes,
        suspended_job,
        a_new_indexed_pod,
        budget,
        quota,
    ],
)
def test_same_scenario_has_the_same_final_state(
    accesses: tuple[ServerAccess, ServerAccess], run_scenario: Callable[[ControlPlaneSide], Any]
) -> None:
    namespace = run_scenario.__name__.replace("_", "-")
    expected, actual = (
        normalize(run_scenario(ControlPlaneSide(access, namespace))) for access in accesses
    )
    assert actual == expected
