"""Limits, where this machine enforces them; and the cgroup files."""

import json
from pathlib import Path

import pytest

from kilonova.local.processnode.cri.api import ContainerStats, Limits
from kilonova.local.processnode.shim.isolation import cgroups
from kilonova.local.processnode.shim.isolation.cgroups import CgroupV1, CgroupV2
from tests.local.processnode.shim.shim_site import ShimSite, kill

MEBIBYTE = 1024 * 1024
EATS = "python3 -c 'x = bytearray(300 * 1024 * 1024); print(len(x))'"


async def enforces_limits(shim_site: ShimSite) -> bool:
    return (await shim_site.runtime.capabilities()).limits


async def test_too_much_memory_is_oom_killed(shim_site: ShimSite) -> None:
    state, text = await shim_site.shell(f"exec {EATS}", limits=Limits(memory_bytes=50 * MEBIBYTE))
    if await enforces_limits(shim_site):
        assert (state.exit_code, state.reason, text) == (137, "OOMKilled", "")
    else:
        assert (state.exit_code, state.reason) == (0, "Completed")


async def test_a_child_that_is_oom_killed_is_the_containers_reason(shim_site: ShimSite) -> None:
    limits = Limits(memory_bytes=50 * MEBIBYTE)
    state, _ = await shim_site.shell(f"{EATS}; exit 4", limits=limits)
    assert state.exit_code in (4, 137)  # as the kernel kills one of them, or all
    expected = {"OOMKilled"} if await enforces_limits(shim_site) else {"Error"}
    assert state.reason in expected


async def test_enough_memory_is_not(shim_site: ShimSite) -> None:
    state, text = await shim_site.shell(EATS, limits=Limits(memory_bytes=600 * MEBIBYTE))
    assert (state.exit_code, state.reason, text) == (0, "Completed", f"{300 * MEBIBYTE}\n")


async def test_cpu_is_limited(shim_site: ShimSite) -> None:
    script = "import time\nend = time.time() + 1\nwhile time.time() < end: pass\n"
    busy = f"{script}print(time.process_time())"
    state = await shim_site.run("python3", "-c", busy, limits=Limits(cpu_millis=200))
    spent = float(shim_site.text(state.id))
    assert spent < 0.5 or not await enforces_limits(shim_site)


def cgroup_folders(shim_site: ShimSite) -> list[Path]:
    known = shim_site.shim_folder / "cgroups.json"
    return [Path(each) for each in json.loads(known.read_text()).values()] if known.exists() else []


async def test_no_cgroup_is_left(shim_site: ShimSite) -> None:
    state = await shim_site.start("sleep", "1000")
    folders = cgroup_folders(shim_site)
    assert all((each / state.id).is_dir() for each in folders)
    await shim_site.runtime.shutdown()
    assert not [each for each in folders if each.exists()]


async def test_cgroups_of_a_killed_shim_are_removed_by_the_next(shim_site: ShimSite) -> None:
    state = await shim_site.start("sleep", "1000")
    folders = cgroup_folders(shim_site)
    kill(shim_site.shim_pid())
    assert (await shim_site.runtime.wait(state.id)).reason == "ContainerStatusUnknown"
    assert not [each for each in folders if (each / state.id).exists()]


@pytest.mark.parametrize(
    ("millis", "quota"), [(1000, 100_000), (250, 25_000), (1, 1000), (4500, 450_000)]
)
def test_quota(millis: int, quota: int) -> None:
    assert cgroups.compute_cpu_quota(millis) == quota


def test_cgroup_mounts_are_parsed() -> None:
    mountinfo = """\
35 25 0:30 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate
36 25 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
37 25 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
38 25 0:33 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
"""
    assert cgroups.parse_cgroup_mounts(mountinfo) == {
        "": "/sys/fs/cgroup/unified",
        "cpu": "/sys/fs/cgroup/cpu,cpuacct",
        "cpuacct": "/sys/fs/cgroup/cpu,cpuacct",
        "memory": "/sys/fs/cgroup/memory",
    }
    assert cgroups.parse_cgroup_paths("4:cpu,cpuacct:/a\n3:memory:/b:c\n0::/user.slice\n") == {
        "cpu": "/a",
        "cpuacct": "/a",
        "memory": "/b:c",
        "": "/user.slice",
    }


def kernel_files(folder: Path, *names: str) -> None:
    folder.mkdir()
    for name in names:
        (folder / name).touch()


def test_limits_with_cgroup_v2(tmp_path: Path) -> None:
    path = tmp_path / "c"
    kernel_files(path, "cpu.max", "memory.max", "memory.swap.max", "memory.oom.group")
    group = CgroupV2(str(path))
    group.set_limits(Limits(cpu_millis=1500, memory_bytes=MEBIBYTE))
    assert (path / "cpu.max").read_text() == "150000 100000"
    assert (path / "memory.max").read_text() == "1048576"
    assert (path / "memory.swap.max").read_text() == "0"
    assert (path / "memory.oom.group").read_text() == "1"
    assert not group.is_out_of_memory()
    (path / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    (path / "cpu.stat").write_text("usage_usec 7\nuser_usec 5\n")
    (path / "memory.current").write_text("5000\n")
    (path / "memory.stat").write_text("anon 1000\ninactive_file 3000\n")
    assert group.is_out_of_memory()
    assert group.read_stats() == ContainerStats(7000, 2000)
    assert group.procs_files == (f"{path}/cgroup.procs",)


def test_limits_with_cgroup_v1(tmp_path: Path) -> None:
    cpu, memory = tmp_path / "cpu", tmp_path / "memory"
    kernel_files(cpu, "cpu.cfs_period_us", "cpu.cfs_quota_us")
    kernel_files(memory, "memory.limit_in_bytes")
    group = CgroupV1({"cpu": str(cpu), "memory": str(memory)})
    group.set_limits(Limits(cpu_millis=500, memory_bytes=MEBIBYTE))
    assert (cpu / "cpu.cfs_quota_us").read_text() == "50000"
    assert (memory / "memory.limit_in_bytes").read_text() == "1048576"
    (memory / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert group.is_out_of_memory()
