"""The recorded answers about built-in kinds are those of the genuine server."""

import pytest

from tests.harness.controlplane import ControlPlane
from tests.local.kinds.recorded import asked, manifests, served_kinds, stored


@pytest.fixture(scope="module")
def kinds():
    return served_kinds()


@pytest.mark.parametrize("name", manifests())
def test_the_record_is_what_kubernetes_answers(
    control_plane: ControlPlane, kinds, name: str
) -> None:
    manifest = manifests()[name]
    kind = kinds[manifest["apiVersion"], manifest["kind"]]
    assert asked(control_plane.access, manifest, kind) == stored()[name]
