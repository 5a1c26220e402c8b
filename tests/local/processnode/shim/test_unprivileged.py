"""The same without privileges: user namespaces for views, /proc instead of cgroups."""

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.local.processnode.shim.shim_site import is_alive, wait_until

NOBODY = 65534
# Python may be installed where only root can read; that one capability does not matter here.
BECOME_NOBODY = (
    (
        "setpriv",
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
        "--inh-caps=+dac_read_search",
        "--ambient-caps=+dac_read_search",
    )
    if os.geteuid() == 0
    else ()
)
FORBID = 'echo 0 > /proc/sys/user/max_mnt_namespaces && exec "$@"'
WITHOUT_NAMESPACES = ("unshare", "--user", "--map-root-user", "sh", "-c", FORBID, "sh")
SCENARIOS = Path(__file__).with_name("unprivileged_scenarios.py")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory that another user can access."""
    made = Path(tempfile.mkdtemp(prefix="shim-"))
    made.chmod(0o755)
    (made / "home").mkdir()
    if os.geteuid() == 0:
        os.chown(made / "home", NOBODY, NOBODY)
    yield made / "home"
    shutil.rmtree(made)


async def run_scenario(
    scenario_name: str, folder: Path, become: Sequence[str] = BECOME_NOBODY
) -> Any:
    process = await asyncio.create_subprocess_exec(
        *(*become, sys.executable, str(SCENARIOS), scenario_name, str(folder)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": str(SCENARIOS.parents[4]), "PATH": os.environ["PATH"]},
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return json.loads(out)


async def test_mounts_in_a_user_namespace(folder: Path) -> None:
    reported = await run_scenario("mounts", folder)
    uid = NOBODY if os.geteuid() == 0 else os.geteuid()
    assert reported["mounts"] == [0, f"hello\nhello\npod-1\n{uid}\n"]
    assert reported["read_only"][0] != 0
    assert "Read-only file system" in reported["read_only"][1]
    assert reported["exec"] == "hello\n"
    assert reported["user"] == "1000\n"


async def test_runaways_without_cgroups(folder: Path) -> None:
    reported = await run_scenario("runaways", folder)
    assert len(reported["pids"]) == 4
    await wait_until(lambda: not any(is_alive(pid) for pid in reported["pids"]))
    assert reported["code"] == 137
    assert reported["cpu"] > 0
    assert reported["memory"] > 0


async def test_a_killed_shim_without_cgroups(folder: Path) -> None:
    reported = await run_scenario("killed_shim", folder)
    assert reported["reason"] == "ContainerStatusUnknown"
    assert not [pid for pid in reported["pids"] if is_alive(pid)]


async def test_mounts_where_namespaces_are_forbidden(tmp_path: Path) -> None:
    reported = await run_scenario("no_namespaces", tmp_path, WITHOUT_NAMESPACES)
    assert reported == {
        "mounts": False,
        "reason": "CreateContainerError",
        "message": f'cannot mount "{tmp_path}" at "/kilonova-test-models": '
        "this machine does not allow mount namespaces",
        "same_place": [0, "fine\n"],
    }
