"""CDI specs: what containers get, and the files."""

import asyncio
import json
from pathlib import Path

import pytest

from kilonova.gpu.cdi import CdiFolder, HostDriver, VisibleDevice, build_edits, find_driver
from kilonova.gpu.cdi.driver_files import (
    SEARCHED_FOLDERS,
    find_host_root,
    parse_linker_cache,
    select_libraries,
)
from kilonova.gpu.cdi.spec import ContainerEdits, DeviceNode, Mount, encode_spec, qualified_name
from kilonova.gpu.devices.model import Device, MigInstance

GPU_0 = Device(0, "GPU-a", minor=0)
GPU_1 = Device(1, "GPU-b", minor=1)
SLICE = MigInstance("MIG-x", "1g.18gb", 4, 1, gpu_instance=9, compute_instance=0)

HOST_FOLDER = "/usr/lib/x86_64-linux-gnu"

LINKER_CACHE = """\
2 libs found in cache `/etc/ld.so.cache'
\tlibnvidia-ml.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libnvidia-ml.so.1
\tlibcuda.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so.1
\tlibcuda.so.1 (libc6) => /lib/i386-linux-gnu/libcuda.so.1
\tlibcuda.so (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so
\tlibc.so.6 (libc6,x86-64) => /lib/x86_64-linux-gnu/libc.so.6
"""


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """The files of a host with two GPUs, of which the second has a MIG instance."""
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-caps/nvidia-cap12"):
        _touch(tmp_path / "dev" / name)
    for name in ("libcuda.so.1", "libcuda.so.580.95.05", "libnvidia-ml.so.1", "libm.so.6"):
        _touch(tmp_path / "usr/lib/x86_64-linux-gnu" / name)
    _touch(tmp_path / "usr/bin/nvidia-smi")
    _touch(tmp_path / "run/nvidia-persistenced/socket")
    mig = tmp_path / "proc/driver/nvidia/capabilities/gpu1/mig/gi9"
    _touch(mig / "access", "DeviceFileMinor: 12\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    _touch(mig / "ci0/access", "DeviceFileMinor: 13\nDeviceFileMode: 292\n")
    _touch(tmp_path / "proc/devices", "Character devices:\n195 nvidia\n234 nvidia-caps\n")
    return tmp_path


def test_container_without_driver_gets_variables_alone() -> None:
    edits = build_edits([VisibleDevice(GPU_1), VisibleDevice(GPU_0)], HostDriver())
    assert edits == ContainerEdits(
        (
            "CUDA_DEVICE_ORDER=PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES=GPU-b,GPU-a",
            "NVIDIA_VISIBLE_DEVICES=GPU-b,GPU-a",
        )
    )


def test_container_without_devices_hides_all_from_the_runtime(host: Path) -> None:
    edits = build_edits([], find_driver(host, lambda _: ""))
    assert "NVIDIA_VISIBLE_DEVICES=void" in edits.env
    assert edits.device_nodes == edits.mounts == ()


def test_container_gets_the_nodes_of_its_gpus_and_the_files_of_the_driver(host: Path) -> None:
    edits = build_edits([VisibleDevice(GPU_1)], find_driver(host, lambda _: ""))
    assert [each.path for each in edits.device_nodes] == [
        "/dev/nvidia1",
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
    ]
    mounts = {each.container_path: each.host_path for each in edits.mounts}
    names = ("libcuda.so.1", "libcuda.so.580.95.05", "libnvidia-ml.so.1")
    # Where every dynamic linker looks, Debian's and Red Hat's.
    assert mounts == {
        **{f"{folder}/{n}": f"{HOST_FOLDER}/{n}" for folder in SEARCHED_FOLDERS for n in names},
        "/usr/bin/nvidia-smi": "/usr/bin/nvidia-smi",
        "/run/nvidia-persistenced/socket": "/run/nvidia-persistenced/socket",
    }
    assert edits.hooks == ()


def test_mig_instance_has_capability_nodes(host: Path) -> None:
    driver = find_driver(host, lambda _: "", host / "proc")
    edits = build_edits([VisibleDevice(GPU_1, SLICE)], driver)
    assert "CUDA_VISIBLE_DEVICES=MIG-x" in edits.env
    assert edits.device_nodes[:3] == (
        DeviceNode("/dev/nvidia1"),
        DeviceNode("/dev/nvidia-caps/nvidia-cap12", permissions="r"),
        # Not on the host yet: the runtime makes it from its numbers.
        DeviceNode("/dev/nvidia-caps/nvidia-cap13", "", "c", 234, 13, "r"),
    )


def test_host_without_control_node_has_no_driver(tmp_path: Path) -> None:
    _touch(tmp_path / "usr/lib64/libcuda.so.1")
    assert find_driver(tmp_path, lambda _: LINKER_CACHE) == HostDriver()


def test_host_is_seen_from_a_container(host: Path, tmp_path: Path) -> None:
    """By the files of the host's first process, in which absolute links lead elsewhere."""
    link = host / "usr/lib/x86_64-linux-gnu/libnvidia-nvvm.so.4"
    link.symlink_to("/opt/driver/libnvidia-nvvm.so.580.1")
    assert not link.exists()
    mounted = [each.host_path for each in find_driver(host, lambda _: "").mounts]
    assert f"{HOST_FOLDER}/libnvidia-nvvm.so.4" in mounted
    process = tmp_path / "processes/1"
    process.mkdir(parents=True)
    assert find_host_root(tmp_path / "processes") == Path("/")
    (process / "root").symlink_to(host)
    assert find_host_root(tmp_path / "processes") == process / "root"


def test_linker_cache_is_updated_where_nvidia_has_a_command(host: Path) -> None:
    _touch(host / "usr/bin/nvidia-cdi-hook")
    driver = find_driver(host, lambda _: "")
    (hook,) = driver.hooks
    assert driver.mounts[0].host_path == driver.mounts[0].container_path
    assert hook.args == (
        *("nvidia-cdi-hook", "update-ldcache"),
        *("--folder", "/usr/lib/x86_64-linux-gnu"),
    )


def test_each_library_comes_from_the_first_folder() -> None:
    folders = ("/usr/lib64/libcuda.so.1", "/lib/x86_64-linux-gnu/libcuda.so.580.1")
    assert list(select_libraries([*parse_linker_cache(LINKER_CACHE), *folders])) == [
        "/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
        "/lib/x86_64-linux-gnu/libcuda.so.1",
        "/lib/x86_64-linux-gnu/libcuda.so",
        "/lib/x86_64-linux-gnu/libcuda.so.580.1",
    ]


def test_spec_is_what_runtimes_read() -> None:
    edits = ContainerEdits(
        ("A=1",), (DeviceNode("/dev/x", "/dev/y", "c", 1, 2, "rw"),), (Mount("/l", "/l"),)
    )
    assert json.loads(encode_spec({"claim-1": edits.with_env({"B": "2", "A": "3"})})) == {
        "cdiVersion": "0.6.0",
        "kind": "kilonova.dev/gpu",
        "devices": [
            {
                "name": "claim-1",
                "containerEdits": {
                    "env": ["A=3", "B=2"],
                    "deviceNodes": [
                        {
                            "path": "/dev/x",
                            "hostPath": "/dev/y",
                            "type": "c",
                            "major": 1,
                            "minor": 2,
                            "permissions": "rw",
                        }
                    ],
                    "mounts": [
                        {
                            "hostPath": "/l",
                            "containerPath": "/l",
                            "options": ["ro", "nosuid", "nodev", "bind"],
                        }
                    ],
                },
            }
        ],
    }


@pytest.mark.parametrize("name", ["", "a/b", "-a", "a b", "é"])
def test_names_that_runtimes_reject(name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a CDI device"):
        qualified_name(name)


async def test_specs_are_removed_with_their_holder(tmp_path: Path) -> None:
    _touch(tmp_path / "nvidia.com-gpu.json")
    folder = CdiFolder(tmp_path)
    await asyncio.gather(*(folder.write(each, {each: ContainerEdits()}) for each in "abc"))
    await folder.remove("a")
    await folder.remove("a")
    assert not folder.has("a")
    await folder.remove_others(["b"])
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "kilonova.dev-gpu_b.json",
        "nvidia.com-gpu.json",
    ]


async def test_unchanged_spec_is_not_written_again(tmp_path: Path) -> None:
    folder = CdiFolder(tmp_path)
    await folder.write("a", {"a": ContainerEdits(("A=1",))})
    (file,) = tmp_path.iterdir()
    before = file.stat().st_ino
    await folder.write("a", {"a": ContainerEdits(("A=1",))})
    assert file.stat().st_ino == before
    await folder.write("a", {"a": ContainerEdits(("A=2",))})
    assert file.stat().st_ino != before
    assert file.stat().st_mode & 0o777 == 0o644


def test_h200_as_it_was_read(tmp_path: Path) -> None:
    """An H200 with driver 580.159.04: `ldconfig -p`, the folder of the driver, the capabilities
    of `nvidia-smi mig -cgi 1g.18gb -C`."""
    folder = "/usr/local/nvidia/lib64"
    for name in (
        *("libcuda.so", "libcuda.so.1", "libcuda.so.580.159.04"),
        *("libnvidia-ml.so.1", "libnvidia-gpucomp.so.580.159.04", "libEGL_nvidia.so.0"),
    ):
        _touch(tmp_path / folder.lstrip("/") / name)
        _touch(tmp_path / "lib" / name)
    for name in ("nvidia-smi", "nvidia-cuda-mps-control"):
        _touch(tmp_path / "usr/local/nvidia/bin" / name)
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"):
        _touch(tmp_path / "dev" / name)
    for number in (1, 2, 120, 121):
        _touch(tmp_path / f"dev/nvidia-caps/nvidia-cap{number}")
    instance = tmp_path / "proc/driver/nvidia/capabilities/gpu0/mig/gi13"
    _touch(instance / "access", "DeviceFileMinor: 120\nDeviceFileMode: 292\n")
    _touch(instance / "ci0/access", "DeviceFileMinor: 121\nDeviceFileMode: 292\n")
    cache = "\n".join(
        f"\t{name} (libc6,x86-64) => {place}/{name}"
        for name in ("libEGL_nvidia.so.0", "libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1")
        for place in (folder, "/lib")
    )
    driver = find_driver(tmp_path, lambda _: cache, tmp_path / "proc")
    slice_ = MigInstance("MIG-8ac7", "1g.18gb", 6, 1, gpu_instance=13, compute_instance=0)
    edits = build_edits([VisibleDevice(GPU_0, slice_)], driver)
    assert [each.path for each in edits.device_nodes] == [
        "/dev/nvidia0",
        "/dev/nvidia-caps/nvidia-cap120",
        "/dev/nvidia-caps/nvidia-cap121",
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia-uvm-tools",
    ]
    assert list(dict.fromkeys(each.host_path for each in edits.mounts)) == [
        f"{folder}/libcuda.so.1",
        f"{folder}/libcuda.so",
        f"{folder}/libnvidia-ml.so.1",
        f"{folder}/libcuda.so.580.159.04",
        f"{folder}/libnvidia-gpucomp.so.580.159.04",
        "/usr/local/nvidia/bin/nvidia-cuda-mps-control",
        "/usr/local/nvidia/bin/nvidia-smi",
    ]


def _touch(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
