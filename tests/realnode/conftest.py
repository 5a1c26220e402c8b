"""A real node and what runs on it, started once in the worker that has these tests.

All of them are in one file, because a file belongs to one worker.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.kubectl import Kubectl
from tests.harness.real_parts import require_part
from tests.harness.realnode.cgroups import list_hierarchies
from tests.harness.realnode.node import NodeParts, RealNode
from tools.image.archive import write_archive
from tools.image.kilonova_image import NAME, build_kilonova_image


@pytest.fixture(scope="session")
def real_node_part() -> NodeParts:
    """The parts of a node; skips where a node cannot run."""
    if os.geteuid() != 0 or "memory" not in list_hierarchies():
        pytest.skip("a real node needs root, and control groups of version 1")
    return NodeParts(
        kubelet=require_part("kubelet"),
        containerd=require_part("containerd"),
        runc=require_part("runc"),
        cni_plugins=require_part("cni-plugins"),
        pause=require_part("pause"),
    )


@pytest.fixture(scope="session")
def kilonova_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive that `make image` writes."""
    path = tmp_path_factory.mktemp("image") / "kilonova.tar"
    write_archive(build_kilonova_image(), NAME, path)
    return path


@pytest.fixture(scope="session")
def real_node(
    real_node_part: NodeParts,
    control_plane_binaries: Path,  # skips without them
    kilonova_image: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RealNode]:
    """A node that has Kilonova's image, and its control plane."""
    folder = tmp_path_factory.mktemp("node")
    with RealNode.start(folder, real_node_part, images=[kilonova_image]) as node:
        yield node


@pytest.fixture
def node_kubectl(real_node: RealNode, kubectl_path: Path, tmp_path: Path) -> Kubectl:
    """kubectl on the control plane of the real node."""
    return Kubectl(kubectl_path, real_node.control_plane.access.kubeconfig, tmp_path)
