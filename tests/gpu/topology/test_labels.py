"""The labels of GPU feature discovery."""

import pytest

from kilonova.gpu.devices.model import NodeInventory
from kilonova.gpu.topology.labels import build_labels
from tests.gpu.devices.machines import CATALOG, first_uuid, simulate


def labels_of(inventory: NodeInventory) -> dict[str, str]:
    return {
        name.removeprefix("nvidia.com/"): value
        for name, value in build_labels(inventory, CATALOG).items()
    }


def test_machine_without_mig_instances() -> None:
    assert labels_of(simulate("h200").read_inventory()) == {
        "gpu.present": "true",
        "gpu.product": "NVIDIA-H200",
        "gpu.count": "8",
        "gpu.memory": "143771",
        "gpu.family": "hopper",
        "gpu.compute.major": "9",
        "gpu.compute.minor": "0",
        "gpu.replicas": "1",
        "gpu.sharing-strategy": "none",
        "mig.capable": "true",
        "mig.strategy": "mixed",
        "mps.capable": "false",
        "cuda.driver-version.full": "580.159.04",
        "cuda.driver-version.major": "580",
        "cuda.driver-version.minor": "159",
        "cuda.driver-version.revision": "04",
        "cuda.driver.major": "580",
        "cuda.driver.minor": "159",
        "cuda.driver.rev": "04",
        "cuda.runtime-version.full": "13.0",
        "cuda.runtime-version.major": "13",
        "cuda.runtime-version.minor": "0",
        "cuda.runtime.major": "13",
        "cuda.runtime.minor": "0",
    }


def test_instances_are_described_by_profile() -> None:
    backend = simulate("h100:2")
    uuid = first_uuid(backend)
    backend.set_mig_mode(uuid, True)
    for profile, start in (("1g.10gb", 0), ("1g.10gb", 1), ("1g.10gb+me", 2), ("3g.40gb", 4)):
        backend.create_instance(uuid, profile, start)
    labels = labels_of(backend.read_inventory())
    large = {name[12:]: value for name, value in labels.items() if name.startswith("mig-3g.40gb.")}
    assert large == {
        "count": "1",
        "product": "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb",
        "replicas": "1",
        "sharing-strategy": "none",
        "memory": "40779",
        "multiprocessors": "60",
        "slices.gi": "3",
        "slices.ci": "3",
        "engines.copy": "3",
        "engines.decoder": "3",
        "engines.encoder": "0",
        "engines.jpeg": "3",
        "engines.ofa": "0",
    }
    assert (labels["mig-1g.10gb.count"], labels["mig-1g.10gb.me.count"]) == ("2", "1")
    assert labels["gpu.count"] == "2"


def test_partial_instance_is_not_counted() -> None:
    backend = simulate()
    uuid = first_uuid(backend)
    backend.set_mig_mode(uuid, True)
    backend.leave_partial_instance(uuid, "1g.10gb", 0)
    assert not [name for name in labels_of(backend.read_inventory()) if name.startswith("mig-")]


@pytest.mark.parametrize(
    ("persona", "name", "value"),
    [
        ("l40s", "gpu.family", "ada-lovelace"),
        ("t4", "gpu.family", "turing"),
        ("b200", "gpu.family", "blackwell"),
        ("l4", "mig.capable", "false"),
        ("l4", "mig.strategy", None),
        ("h100", "gpu.clique", None),
        ("gb200-nvl72", "gpu.clique", "5f3c1a0e-6f0b-5d53-9c2e-000000000072.0"),
        ("mixed", "gpu.product", "NVIDIA-H100-NVL"),
    ],
)
def test_label_of_a_machine(persona: str, name: str, value: str | None) -> None:
    assert labels_of(simulate(persona).read_inventory()).get(name) == value


def test_machine_without_gpus_has_no_labels() -> None:
    assert build_labels(NodeInventory(), CATALOG) == {}
