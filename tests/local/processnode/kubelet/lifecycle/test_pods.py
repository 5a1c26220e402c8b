"""The lifecycle of pods that run as processes, through the API."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from kilonova.kube import PatchType
from tests.local.embedded_cluster import PODS, wait_for_condition
from tests.local.processnode.kubelet.process_cluster import (
    ProcessCluster,
    container_of,
    is_ready,
    process_cluster,
    state_of,
)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncGenerator[ProcessCluster]:
    async with process_cluster(tmp_path / "data") as running:
        yield running


async def test_a_pod_runs_to_its_end(cluster: ProcessCluster) -> None:
    await cluster.run(
        "p", "sh", "-c", "echo hello; echo bye > /dev/termination-log", restartPolicy="Never"
    )
    pod = await cluster.wait_for_phase("p", "Succeeded")
    kind, state = state_of(pod)
    assert (kind, state["exitCode"], state["reason"], state["message"]) == (
        "terminated",
        0,
        "Completed",
        "bye\n",
    )
    assert await cluster.logs("p") == "hello\n"
    assert {("Created", "Container created"), ("Started", "Container started")} <= set(
        await cluster.events("p")
    )
    assert pod["status"]["podIP"].startswith("127.")


async def test_missing_command_is_retried_with_back_off(cluster: ProcessCluster) -> None:
    await cluster.run("p", "/no/such/command")
    pod = await cluster.wait_until(
        "p", lambda pod: state_of(pod)[1].get("reason") == "CrashLoopBackOff"
    )
    found = container_of(pod)
    ended = found["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert "no such file or directory" in ended["message"]
    assert (
        "back-off 10s restarting failed container=main pod=p_default("
        in (found["state"]["waiting"]["message"])
    )
    assert (await cluster.wait_for_event("p", "Failed")).startswith("Error: ")
    assert "Back-off restarting failed container main in pod p_default(" in (
        await cluster.wait_for_event("p", "BackOff")
    )


async def test_a_command_that_does_not_exist_fails_a_pod_that_never_restarts(
    cluster: ProcessCluster,
) -> None:
    await cluster.run("p", "/no/such/command", restartPolicy="Never")
    pod = await cluster.wait_for_phase("p", "Failed")
    assert state_of(pod)[1]["reason"] == "StartError"
    assert await cluster.logs("p") == ""


async def test_container_without_a_command_reports_what_to_do(cluster: ProcessCluster) -> None:
    await cluster.create("p", {"name": "main", "args": ["x"]})
    pod = await cluster.wait_until(
        "p", lambda pod: state_of(pod)[1].get("reason") == "ErrImageNeverPull"
    )
    assert state_of(pod)[1]["message"].startswith("container main has no command, and this")
    assert pod["status"]["phase"] == "Pending"


async def test_a_pod_that_exits_at_once_backs_off(cluster: ProcessCluster) -> None:
    await cluster.run(
        "p",
        "sh",
        "-c",
        "echo try; exit 3",
        container={"terminationMessagePolicy": "FallbackToLogsOnError"},
    )
    pod = await cluster.wait_until(
        "p", lambda pod: state_of(pod)[1].get("reason") == "CrashLoopBackOff"
    )
    found = container_of(pod)
    ended = found["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (3, "Error", "try\n")
    assert found["restartCount"] == 1
    assert (pod["status"]["phase"], is_ready(pod)) == ("Running", False)
    assert await cluster.logs("p") == "try\n"
    assert await cluster.logs("p", previous=True) == "try\n"


async def test_a_pod_that_ignores_sigterm_is_killed_when_its_grace_is_over(
    cluster: ProcessCluster,
) -> None:
    script = "trap '' TERM; echo up; while :; do sleep 0.1; done"
    await cluster.run("p", "sh", "-c", script, metadata={"finalizers": ["test/see-the-end"]})
    await cluster.wait_for_log("p", "up")
    await cluster.client.delete(PODS, "p", "default", grace_period_seconds=1)
    pod = await cluster.wait_for_phase("p", "Failed")
    assert state_of(pod)[1]["exitCode"] == 137
    await cluster.client.patch(PODS, "p", {"metadata": {"finalizers": None}}, "default")
    await cluster.wait_for_deletion("p")
    assert await cluster.wait_for_event("p", "Killing") == "Stopping container main"


async def test_grace_period_can_be_shortened(cluster: ProcessCluster) -> None:
    await cluster.run("p", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done")
    await cluster.wait_for_log("p", "up")
    await cluster.client.delete(PODS, "p", "default", grace_period_seconds=600)
    await cluster.wait_for_event("p", "Killing")
    await cluster.client.delete(PODS, "p", "default", grace_period_seconds=1)
    await cluster.wait_for_deletion("p")


async def test_forked_processes_end_with_their_pod(cluster: ProcessCluster) -> None:
    # `$$` is an escaped `$` in commands of containers.
    script = "(setsid sh -c 'echo child $$$$ is up; sleep 1000' &) ; exec sleep 1000"
    await cluster.run("p", "sh", "-c", script)
    log = await cluster.wait_for_log("p", "is up")
    child = Path(f"/proc/{log.split()[1]}")
    assert child.exists()
    await cluster.client.delete(PODS, "p", "default", grace_period_seconds=1)
    await cluster.wait_for_deletion("p")
    assert not child.exists()


async def test_a_full_log_is_rotated_and_still_readable(cluster: ProcessCluster) -> None:
    line = "x" * 1000
    script = f"i=0; while [ $i -lt 14000 ]; do echo $i {line}; i=$((i+1)); done"
    await cluster.run("p", "sh", "-c", script, restartPolicy="Never")
    await cluster.wait_for_phase("p", "Succeeded")
    lines = (await cluster.logs("p")).splitlines()
    assert [int(each.split()[0]) for each in lines] == list(range(14000))
    tail = (await cluster.logs("p", tail=3000)).splitlines()
    assert tail == lines[-3000:]
    folder = next(cluster.data.glob("pods/*/logs/main"))
    assert len(list(folder.iterdir())) == 2


async def test_init_containers_then_sidecars_then_the_rest(cluster: ProcessCluster) -> None:
    once = "echo {} >> $HOME/order"
    stopping = (
        "trap 'echo {0} ended >> $HOME/order; exit 0' TERM; "
        "echo {0} >> $HOME/order; while :; do sleep 0.05; done"
    )
    probe = {"exec": {"command": ["test", "-e", "go"]}, "periodSeconds": 1}

    def shell(name: str, script: str, **more: Any) -> Any:
        return {"name": name, "image": "none", "command": ["sh", "-c", script.format(name)], **more}

    await cluster.create(
        "p",
        shell("main", stopping),
        initContainers=[
            shell("first", once),
            shell("side", stopping, restartPolicy="Always", startupProbe=probe),
            shell("second", once),
            shell("late", stopping, restartPolicy="Always"),
        ],
        terminationGracePeriodSeconds=20,
    )
    waiting = await cluster.wait_until("p", lambda pod: state_of(pod, "side")[0] == "running")
    assert state_of(waiting, "second") == ("waiting", {"reason": "PodInitializing"})
    assert waiting["status"]["phase"] == "Pending"
    scratch = next(cluster.data.glob("pods/*/scratch"))
    (scratch / "go").touch()
    await cluster.wait_until("p", is_ready)
    order = scratch / "order"
    assert order.read_text().split() == ["first", "side", "second", "late", "main"]
    kept = cluster.data.parent / "order"
    order.rename(kept)
    kept.write_text("")
    order.symlink_to(kept)
    await cluster.client.delete(PODS, "p", "default")
    await cluster.wait_for_deletion("p")
    assert kept.read_text().splitlines() == ["main ended", "late ended", "side ended"]


async def test_a_finished_pod_ends_its_sidecars(cluster: ProcessCluster) -> None:
    side = {
        "name": "side",
        "image": "none",
        "command": ["sleep", "1000"],
        "restartPolicy": "Always",
    }
    await cluster.run("p", "true", restartPolicy="Never", initContainers=[side])
    pod = await cluster.wait_for_phase("p", "Succeeded")
    assert state_of(pod, "side")[0] == "terminated"


async def test_a_deadline_ends_a_pod(cluster: ProcessCluster) -> None:
    await cluster.run("p", "sleep", "1000", activeDeadlineSeconds=1)
    pod = await cluster.wait_for_phase("p", "Failed")
    assert pod["status"]["reason"] == "DeadlineExceeded"
    assert state_of(pod)[1]["exitCode"] == 143


async def test_container_that_fails_liveness_is_restarted(cluster: ProcessCluster) -> None:
    probe = {
        "exec": {"command": ["test", "-e", "alive"]},
        "periodSeconds": 1,
        "failureThreshold": 1,
    }
    await cluster.run("p", "sh", "-c", "exec sleep 1000", container={"livenessProbe": probe})
    pod = await cluster.wait_until("p", lambda pod: container_of(pod).get("restartCount") == 1)
    assert container_of(pod)["lastState"]["terminated"]["exitCode"] == 143
    assert (await cluster.wait_for_event("p", "Unhealthy")).startswith("Liveness probe failed:")
    assert (
        await cluster.wait_for_event("p", "Killing")
        == "Container main failed liveness probe, will be restarted"
    )


async def test_readiness_comes_and_goes(cluster: ProcessCluster) -> None:
    probe = {"httpGet": {"path": "/ok", "port": "web"}, "periodSeconds": 1, "failureThreshold": 1}
    await cluster.run(
        "p",
        "python3",
        "-m",
        "http.server",
        "8080",
        container={"readinessProbe": probe, "ports": [{"name": "web", "containerPort": 8080}]},
    )
    await cluster.wait_for_event("p", "Unhealthy")
    assert not is_ready(await cluster.wait_for_phase("p", "Running"))
    scratch = next(cluster.data.glob("pods/*/scratch"))
    (scratch / "ok").touch()
    await cluster.wait_until("p", is_ready)
    (scratch / "ok").unlink()
    await cluster.wait_until("p", lambda pod: not is_ready(pod))
    assert await cluster.wait_for_event("p", "Unhealthy") in (
        "Readiness probe failed: HTTP probe failed with statuscode: 404",
        *(message for _, message in await cluster.events("p")),
    )


async def test_hooks_run_after_the_start_and_before_the_end(cluster: ProcessCluster) -> None:
    kept = cluster.data.parent / "hooks"
    kept.touch()
    lifecycle = {
        "postStart": {"exec": {"command": ["sh", "-c", f"echo started >> {kept}"]}},
        "preStop": {"exec": {"command": ["sh", "-c", f"echo stopping >> {kept}"]}},
    }
    script = f"trap 'echo ended >> {kept}; exit' TERM; while :; do sleep 0.05; done"
    await cluster.run("p", "sh", "-c", script, container={"lifecycle": lifecycle})
    await cluster.wait_until("p", is_ready)
    await cluster.client.delete(PODS, "p", "default")
    await cluster.wait_for_deletion("p")
    assert kept.read_text().split() == ["started", "stopping", "ended"]


async def test_a_failed_hook_ends_its_container(cluster: ProcessCluster) -> None:
    hook = {"postStart": {"exec": {"command": ["false"]}}}
    await cluster.run("p", "sleep", "1000", container={"lifecycle": hook})
    assert await cluster.wait_for_event("p", "FailedPostStartHook") == "PostStartHook failed"
    await cluster.wait_until("p", lambda pod: container_of(pod).get("restartCount", 0) >= 1)


async def test_a_pod_that_never_started_goes_when_deleted(cluster: ProcessCluster) -> None:
    await cluster.create("p", {"name": "main"})
    await cluster.wait_until("p", lambda pod: state_of(pod)[0] == "waiting")
    await cluster.client.delete(PODS, "p", "default")
    await cluster.wait_for_deletion("p")

    async def nothing_is_left() -> bool:
        return not list(cluster.data.glob("pods/*"))

    await wait_for_condition(nothing_is_left)


async def test_ephemeral_container_is_added_to_a_running_pod(cluster: ProcessCluster) -> None:
    await cluster.run("p", "sleep", "1000")
    await cluster.wait_until("p", is_ready)
    look = {"name": "look", "image": "none", "command": ["echo", "looked"]}
    await cluster.client.patch(
        PODS,
        "p",
        {"spec": {"ephemeralContainers": [look]}},
        "default",
        subresource="ephemeralcontainers",
        patch_type=PatchType.STRATEGIC,
    )
    pod = await cluster.wait_until("p", lambda pod: state_of(pod, "look")[0] == "terminated")
    assert is_ready(pod)
    assert await cluster.logs("p", container="look") == "looked\n"
