"""MPS through a real subprocess that speaks like `nvidia-cuda-mps-control`."""

import os
from pathlib import Path

import pytest

from kilonova.gpu.sharing.mps.control import (
    MpsCommands,
    MpsControlProgram,
    MpsDirectories,
    MpsError,
    MpsErrorKind,
)
from kilonova.gpu.sharing.mps.sharing import DeviceShare, MpsClient, ShareRefused
from kilonova.gpu.sharing.shares import MpsShare
from tests.gpu.sharing.conftest import MpsLaboratory, wait_until_gone


def share(threads: int = 25, memory: int = 10_000, device: str = "GPU-1") -> DeviceShare:
    return DeviceShare(device, MpsShare(threads, memory))


async def test_first_share_starts_a_daemon_and_the_last_one_stops_it(mps: MpsLaboratory) -> None:
    sharing = mps.sharing()
    settings = await sharing.prepare("a", share(25))
    assert settings.pipe_directory == str(mps.pipe("GPU-1"))
    assert settings.environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"
    pid = mps.pid("GPU-1")
    await sharing.prepare("b", share(50, 20_000))
    assert mps.pid("GPU-1") == pid
    assert mps.exclusive.devices == {"GPU-1"}
    assert mps.state("GPU-1")["device"] == "GPU-1"
    await sharing.release("a")
    os.kill(pid, 0)
    await sharing.release("b")
    wait_until_gone(pid)
    assert not mps.pipe("GPU-1").exists()
    assert not mps.exclusive.devices
    await sharing.release("b")


async def test_server_has_the_largest_share_as_ceiling(mps: MpsLaboratory) -> None:
    sharing = mps.sharing()
    await sharing.prepare("small", share(20, 5_000))
    await sharing.prepare("large", share(60, 40_000))
    assert (mps.state("GPU-1")["threads"], mps.state("GPU-1")["memory"]) == (60.0, "40000M")
    await sharing.release("large")
    assert (mps.state("GPU-1")["threads"], mps.state("GPU-1")["memory"]) == (20.0, "5000M")


async def test_share_is_changed_while_the_server_runs(mps: MpsLaboratory) -> None:
    sharing = mps.sharing()
    await sharing.prepare("pod", share(20, 5_000))
    mps.add_server("GPU-1", 400, 41)
    settings = await sharing.prepare("pod", share(70, 30_000))
    assert settings.environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "70"
    assert mps.state("GPU-1")["servers"] == {
        "400": {"status": "ACTIVE", "clients": [41], "threads": 70.0, "memory": "30000M"}
    }


async def test_sums_are_admitted_and_a_refusal_changes_nothing(mps: MpsLaboratory) -> None:
    sharing = mps.sharing()
    await sharing.prepare("a", share(60, 10_000))
    with pytest.raises(ShareRefused, match="threads: 110 %"):
        await sharing.prepare("b", share(50, 10_000))
    with pytest.raises(ShareRefused, match="memory: 90000 MiB"):
        await sharing.prepare("b", share(10, 80_000))
    with pytest.raises(ShareRefused, match="a pod has one alone"):
        await sharing.prepare("a", share(device="GPU-2"))
    with pytest.raises(ShareRefused, match="no device for MPS"):
        await sharing.prepare("c", share(device="GPU-9"))
    assert list(sharing.shares_on("GPU-1")) == ["a"]
    # Its own old share does not count against a change.
    await sharing.prepare("a", share(100, 80_000))


async def test_clients_are_killed_by_pid(mps: MpsLaboratory) -> None:
    sharing = mps.sharing()
    await sharing.prepare("a", share())
    mps.add_server("GPU-1", 400, 41, 42, 43)
    assert await sharing.clients("GPU-1") == tuple(
        MpsClient("GPU-1", 400, pid) for pid in (41, 42, 43)
    )
    assert await sharing.kill_clients("GPU-1", {42, 43, 99}) == (42, 43)
    assert [each.pid for each in await sharing.clients("GPU-1")] == [41]


async def test_next_agent_adopts_the_daemon(mps: MpsLaboratory) -> None:
    await mps.sharing().prepare("pod", share(30))
    pid = mps.pid("GPU-1")
    later = mps.sharing()
    assert await later.reconcile({"pod": share(30)}) == {}
    assert mps.pid("GPU-1") == pid
    # The pod has ended while no agent ran.
    last = mps.sharing()
    assert await last.reconcile({}) == {}
    wait_until_gone(pid)
    assert not mps.exclusive.devices


async def test_crashed_daemon_is_started_again(mps: MpsLaboratory) -> None:
    sharing = mps.sharing()
    await sharing.prepare("pod", share(30))
    mps.crash("GPU-1")
    problems = await sharing.check_health()
    assert problems == {"GPU-1": "the MPS daemon had ended, and was started again"}
    assert mps.state("GPU-1")["threads"] == 30.0
    assert await sharing.check_health() == {}
    # Also where nobody has looked before.
    mps.crash("GPU-1")
    assert await mps.sharing().reconcile({"pod": share(30)}) == {}
    assert mps.state("GPU-1")["threads"] == 30.0


async def test_fault_of_a_server_is_told(mps: MpsLaboratory) -> None:
    sharing = mps.sharing()
    await sharing.prepare("pod", share())
    mps.add_server("GPU-1", 400, 41, status="FAULT")
    problems = await sharing.check_health()
    assert problems == {"GPU-1": "MPS server 400 is in state FAULT: a client has failed"}


async def test_failed_start_leaves_nothing_behind(mps: MpsLaboratory) -> None:
    sharing = mps.sharing(FAKE_MPS_START="fails")
    with pytest.raises(MpsError, match="Failed to start"):
        await sharing.prepare("pod", share())
    assert not mps.exclusive.devices
    assert not mps.pipe("GPU-1").exists()
    assert not sharing.shares_on("GPU-1")
    assert await sharing.reconcile({"pod": share()}) == {"GPU-1": "MPS start: Failed to start"}


def test_missing_program_and_missing_daemon_are_told_apart(
    tmp_path: Path, mps: MpsLaboratory
) -> None:
    directories = MpsDirectories(tmp_path, tmp_path)
    with pytest.raises(MpsError, match="is not installed") as error:
        MpsControlProgram(tmp_path / "nothing").send(directories, "get_server_list")
    assert error.value.kind is MpsErrorKind.NOT_INSTALLED
    with pytest.raises(MpsError) as error:
        MpsCommands(mps.control(), directories).servers()
    assert error.value.kind is MpsErrorKind.NOT_RUNNING


def test_program_that_hangs_has_a_limit(tmp_path: Path) -> None:
    program = tmp_path / "hangs"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    with pytest.raises(MpsError, match=r"no answer within 0\.05 s"):
        MpsControlProgram(program, timeout=0.05).send(
            MpsDirectories(tmp_path, tmp_path), "get_server_list"
        )
