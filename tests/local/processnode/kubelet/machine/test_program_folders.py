"""Programs below a directory that is closed to others, such as root's home."""

import json
import os
from pathlib import Path

import pytest

from kilonova.local.processnode.cri.api import Mount
from kilonova.local.processnode.kubelet.machine.program_folders import (
    expose_folders,
    uncover_folders,
)
from tests.local.processnode.kubelet.process_cluster import process_cluster

USER = 65532


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A closed home directory, with an interpreter and a link to it."""
    for each in (tmp_path, *tmp_path.parents):
        if each.stat().st_uid == os.geteuid() and not each.stat().st_mode & 0o001:
            each.chmod(each.stat().st_mode | 0o011)  # a folder of pytest
    home = tmp_path / "home"
    (home / "python-3.11/bin").mkdir(parents=True)
    (home / "python").symlink_to("python-3.11")
    (home / "secret").write_text("x")
    program = home / "python-3.11/bin/greet"
    program.write_text("#!/bin/sh\nid -u\n")
    program.chmod(0o755)
    home.chmod(0o700)
    return home


def test_folder_of_a_closed_directory_is_mounted_by_all_its_names(home: Path) -> None:
    folder = home / "python-3.11"
    mounts, hidden = expose_folders([str(home / "python")], USER, None)
    assert hidden == (str(home),)
    assert mounts == (
        Mount(folder, str(folder), read_only=True),
        Mount(folder, str(home / "python"), read_only=True),
    )


def test_folder_that_a_user_can_read_stays_as_it_is(home: Path) -> None:
    home.chmod(0o711)
    assert expose_folders([str(home / "python")], USER, None) == ((), ())
    home.chmod(0o710)
    assert expose_folders([str(home / "python")], USER, home.stat().st_gid) == ((), ())
    home.chmod(0o700)
    assert expose_folders([str(home / "python")], home.stat().st_uid, None) == ((), ())


def test_folder_below_a_volume_is_mounted_again(home: Path) -> None:
    folder, link = home / "python-3.11", home / "python"
    mounts = (
        Mount(folder, str(link), read_only=True),
        Mount(folder, str(folder), read_only=True),
    )
    assert uncover_folders([str(link)], [f"{home}/"]) == mounts
    assert uncover_folders([str(link)], [str(folder), f"{home}x"]) == ()
    assert uncover_folders([str(home / "missing")], [str(home)]) == ()


async def test_volume_above_the_programs_of_an_image_does_not_hide_them(
    home: Path, tmp_path: Path
) -> None:
    entry = {
        "image": "greet",
        "entrypoint": [str(home / "python/bin/greet")],
        "folders": [str(home / "python")],
    }
    images = tmp_path / "images.yaml"
    images.write_text(json.dumps({"images": [entry]}))
    container = {"image": "greet", "volumeMounts": [{"name": "own", "mountPath": str(home)}]}
    volumes = [{"name": "own", "emptyDir": {}}]
    async with process_cluster(tmp_path / "data", images=images) as cluster:
        await cluster.run("p", container=container, volumes=volumes, restartPolicy="Never")
        await cluster.wait_for_phase("p", "Succeeded")
        assert await cluster.logs("p") == f"{os.geteuid()}\n"
        command = ("cat", f"{home}/secret")
        await cluster.run(
            "thief", *command, container=container, volumes=volumes, restartPolicy="Never"
        )
        await cluster.wait_for_phase("thief", "Failed")
        assert "No such file" in await cluster.logs("thief")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run as others")
async def test_container_of_another_user_runs_the_programs_of_its_image(
    home: Path, tmp_path: Path
) -> None:
    program = str(home / "python/bin/greet")
    entry = {"image": "greet", "entrypoint": [program], "folders": [str(home / "python")]}
    images = tmp_path / "images.yaml"
    images.write_text(json.dumps({"images": [entry]}))
    context = {"runAsUser": USER, "runAsNonRoot": True}
    async with process_cluster(tmp_path / "data", images=images) as cluster:
        image = {"image": "greet"}
        await cluster.run("p", container=image, securityContext=context, restartPolicy="Never")
        await cluster.wait_for_phase("p", "Succeeded")
        assert await cluster.logs("p") == f"{USER}\n"
        command = ("cat", f"{home}/secret")
        await cluster.run(
            "thief", *command, container=image, securityContext=context, restartPolicy="Never"
        )
        await cluster.wait_for_phase("thief", "Failed")
        assert "No such file" in await cluster.logs("thief")
