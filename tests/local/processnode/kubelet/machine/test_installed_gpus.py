"""GPUs of this machine, from what `nvidia-smi` printed on real ones."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from kilonova.api.gpu.annotations import (
    TOPOLOGY,
    Gpu,
    MigInstance,
    ReportedMigProfile,
    Topology,
    parse_topology,
)
from kilonova.local.processnode.kubelet.machine.gpus import (
    InstalledGpus,
    build_feature_labels,
    build_topology_annotation,
    describe_reading,
    find_installed_gpus,
)
from kilonova.local.processnode.kubelet.machine.nvidia_smi import GpuReadError, read_gpus
from kilonova.scheduler.convert.gpus import NodeGpus, convert_node_gpus

GPU = """
  <gpu id="{pci}">
    <product_name>{product}</product_name>
    <product_architecture>{architecture}</product_architecture>
    <mig_mode><current_mig>{mig}</current_mig><pending_mig>{mig}</pending_mig></mig_mode>
    <mig_devices>{devices}</mig_devices>
    <uuid>{uuid}</uuid>
    <gpu_recovery_action>{action}</gpu_recovery_action>
    <fb_memory_usage><total>{memory} MiB</total><used>0 MiB</used></fb_memory_usage>
    <remapped_rows><remapped_row_failure>{remapping}</remapped_row_failure></remapped_rows>
  </gpu>
"""
ONE_GPU_MATRIX = (
    "\t\x1b[4mGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \t0-15\t0\t\tN/A\n\nLegend:\n\n  X    = Self\n"
)
"""As printed on a machine with one H200."""

MIG_LISTING = """\
GPU 0: NVIDIA H200 (UUID: GPU-00000000-0000-0000-0000-000000000000)
  MIG 3g.71gb     Device  0: (UUID: MIG-aa5d03ad-7fc6-5d88-9cc8-2d20c4d12fdf)
  MIG 2g.35gb     Device  1: (UUID: MIG-78138c1a-caa2-5c1d-8d0b-1ecdfc4b9716)
  MIG 1g.18gb     Device  2: (UUID: MIG-2d209088-d8b6-5450-bf9f-fc26413e2fcd)
"""
MIG_PLACEMENTS = """\
+---------------------------------------------------------+
| GPU instances:                                          |
| GPU   Name               Profile  Instance   Placement  |
|                            ID       ID       Start:Size |
|=========================================================|
|   0  MIG 1g.18gb           19        9          2:1     |
+---------------------------------------------------------+
|   0  MIG 2g.35gb           14        3          0:2     |
+---------------------------------------------------------+
|   0  MIG 3g.71gb            9        2          4:4     |
+---------------------------------------------------------+
"""
"""As printed after `nvidia-smi mig -cgi 9,14,19 -C` on an H200."""


def gpu(index: int = 0, **facts: str) -> str:
    known = {
        "pci": f"00000000:0{index}:06.0",
        "product": "NVIDIA H200",
        "architecture": "Hopper",
        "mig": "Disabled",
        "devices": "None",
        "uuid": f"GPU-{index}",
        "action": "None",
        "memory": "143771",
        "remapping": "No",
    }
    return GPU.format(**known | facts)


def query(*gpus: str) -> str:
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n'
        "<nvidia_smi_log><driver_version>580.159.04</driver_version>"
        f"<cuda_version>13.0</cuda_version>{''.join(gpus)}</nvidia_smi_log>"
    )


def read(**outputs: str) -> InstalledGpus:
    """What is known after these outputs: `q`, `topo`, `L` and `mig`."""

    def run(command: Sequence[str]) -> str:
        return outputs[command[1].removeprefix("-")]

    return describe_reading(read_gpus(run))


def published(installed: InstalledGpus) -> Topology:
    topology = parse_topology(build_topology_annotation(installed)[TOPOLOGY])
    assert isinstance(topology, Topology)
    return topology


def scheduled(installed: InstalledGpus) -> NodeGpus:
    found = convert_node_gpus(build_topology_annotation(installed), {}, 0)
    assert isinstance(found, NodeGpus)
    return found


def test_one_gpu_is_described() -> None:
    installed = read(q=query(gpu(pci="00000000:00:06.0", uuid="GPU-a")), topo=ONE_GPU_MATRIX)
    assert published(installed) == Topology(
        (Gpu(uuid="GPU-a", pci="0000:00:06.0", numa=0, pcie="0"),),
        product="NVIDIA-H200",
        memory=143771,
        architecture="Hopper",
        sms=132,
    )
    labels = build_feature_labels(installed)
    assert {name.removeprefix("nvidia.com/"): value for name, value in labels.items()} == {
        "gpu.present": "true",
        "gpu.product": "NVIDIA-H200",
        "gpu.count": "1",
        "gpu.memory": "143771",
        "gpu.family": "hopper",
        "gpu.compute.major": "9",
        "gpu.compute.minor": "0",
        "mig.capable": "true",
        "cuda.driver-version.full": "580.159.04",
        "cuda.driver-version.major": "580",
        "cuda.driver-version.minor": "159",
        "cuda.driver-version.revision": "04",
        "cuda.runtime-version.full": "13.0",
        "cuda.runtime-version.major": "13",
        "cuda.runtime-version.minor": "0",
    }


def test_only_existing_mig_instances_are_offered() -> None:
    devices = "".join(
        f"<mig_device><index>{index}</index><gpu_instance_id>{instance}</gpu_instance_id>"
        "<compute_instance_id>0</compute_instance_id></mig_device>"
        for index, instance in enumerate((2, 3, 9))
    )
    installed = read(
        q=query(gpu(mig="Enabled", devices=devices)),
        topo=ONE_GPU_MATRIX,
        L=MIG_LISTING,
        mig=MIG_PLACEMENTS,
    )
    (device,) = installed.gpus
    assert device.mig_enabled
    assert device.instances == (
        MigInstance("MIG-aa5d03ad-7fc6-5d88-9cc8-2d20c4d12fdf", "3g.71gb", 4),
        MigInstance("MIG-78138c1a-caa2-5c1d-8d0b-1ecdfc4b9716", "2g.35gb", 0),
        MigInstance("MIG-2d209088-d8b6-5450-bf9f-fc26413e2fcd", "1g.18gb", 2),
    )
    topology = published(installed)
    (geometry,) = topology.geometries.values()
    assert geometry == (
        ReportedMigProfile("1g.18gb", slices=1, starts=(2,), limit=1, compute=1),
        ReportedMigProfile("2g.35gb", slices=2, starts=(0,), limit=1, compute=2),
        ReportedMigProfile("3g.71gb", slices=4, starts=(4,), limit=1, compute=3),
    )
    mig = scheduled(installed).layout.gpus[0].mig
    assert mig is not None
    assert mig.free_starts(0, "1g.18gb") == (2,)
    assert build_feature_labels(installed)["nvidia.com/mig.strategy"] == "mixed"


def matrix(*rows: str) -> str:
    """Rows of connections, with NUMA nodes."""
    titles = "\t".join(f"GPU{index}" for index in range(len(rows)))
    lines = [f"GPU{index}\t{row}" for index, row in enumerate(rows)]
    return "\n".join([f"\t{titles}\tNIC0\tCPU Affinity\tNUMA Affinity", *lines])


def test_gpus_behind_an_nvswitch_have_ports() -> None:
    topo = matrix(
        " X \tNV18\tNV18\tPIX\t0-63\t0",
        "NV18\t X \tNV18\tSYS\t0-63\t0",
        "NV18\tNV18\t X \tSYS\t64-127\t1",
    )
    installed = read(q=query(*(gpu(index) for index in range(3))), topo=topo)
    topology = published(installed)
    assert (topology.port, topology.links) == (900, ())
    assert [each.numa for each in topology.gpus] == [0, 0, 1]


def test_gpus_with_a_bridge_have_links_and_share_pcie_switches() -> None:
    topo = matrix(
        " X \tNV4\tSYS\tSYS\tNODE\t0-31\t0",
        "NV4\t X \tSYS\tSYS\tNODE\t0-31\t0",
        "SYS\tSYS\t X \tPIX\tSYS\t32-63\t1",
        "SYS\tSYS\tPIX\t X \tSYS\t32-63\t1",
    )
    a40 = {"product": "NVIDIA A40", "architecture": "Ampere", "memory": "46068"}
    topology = published(read(q=query(*(gpu(index, **a40) for index in range(4))), topo=topo))
    assert [each.pcie for each in topology.gpus] == ["0", "1", "2", "2"]
    assert topology.port == 0
    assert [link[:2] for link in topology.links] == [(0, 1)]


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"remapping": "Yes"}, "row remapping failed"),
        ({"action": "Drain and Reset"}, "recovery action required: Drain and Reset"),
    ],
)
def test_a_broken_gpu_is_published_as_unhealthy(facts: dict[str, str], reason: str) -> None:
    installed = read(q=query(gpu(), gpu(1, **facts)), topo="")
    first, second = published(installed).gpus
    assert (first.healthy, second.healthy, second.reason) == (True, False, reason)


def test_different_gpus_keep_their_own_facts() -> None:
    other = gpu(1, product="NVIDIA L4", architecture="Ada Lovelace", memory="23034")
    topology = published(read(q=query(gpu(), other), topo=""))
    assert topology.product == "NVIDIA-H200"
    assert (topology.gpus[1].product, topology.gpus[1].memory) == ("NVIDIA-L4", 23034)


def test_what_may_not_be_read_is_left_out() -> None:
    """Placements of MIG instances need privileges, and some machines have no topology."""

    def run(command: Sequence[str]) -> str:
        if command[1:] == ["-q", "-x"]:
            return query(gpu(mig="Enabled", product="NVIDIA (engineering sample)"))
        raise GpuReadError(f"{' '.join(command)} failed with 4: Insufficient Permissions")

    installed = describe_reading(read_gpus(run))
    (described,) = published(installed).gpus
    assert (described.mig_enabled, described.numa, described.pcie) == (True, -1, "")
    assert installed.gpus[0].instances == ()
    labels = build_feature_labels(installed)
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-engineering-sample"


def test_output_that_is_not_xml_is_an_error() -> None:
    with pytest.raises(GpuReadError, match="nvidia-smi -q -x: not XML"):
        read(q="No devices were found", topo="")


def test_a_machine_without_the_driver_has_no_gpus(tmp_path: Path) -> None:
    assert find_installed_gpus(tmp_path) == InstalledGpus()
    assert build_feature_labels(InstalledGpus()) == {}
    assert build_topology_annotation(InstalledGpus((Gpu(), Gpu()))) == {}


def test_gpus_are_counted_where_nvidia_smi_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("0000:00:06.0", "0000:00:07.0"):
        (tmp_path / "driver" / "nvidia" / "gpus" / name).mkdir(parents=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_installed_gpus(tmp_path) == InstalledGpus((Gpu(), Gpu()))
