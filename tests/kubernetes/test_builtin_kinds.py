"""The recorded answers about built-in kinds are those of the genuine server."""

from collections.abc import Iterator

import pytest

from tests.harness.controlplane import ControlPlane
from tests.local.kinds.recorded import asked, manifests, served_kinds, stored


@pytest.fixture(scope="module")
def kinds():
    return served_kinds()


@pytest.fixture
def account(control_plane: ControlPlane) -> Iterator[None]:
    """The account that one of the pods names."""
    path = "/api/v1/namespaces/default/serviceaccounts"
    control_plane.access.ask("POST", path, {"metadata": {"name": "robot"}})
    yield
    control_plane.access.ask("DELETE", f"{path}/robot")


@pytest.mark.parametrize("name", manifests())
def test_the_record_is_what_kubernetes_answers(
    control_plane: ControlPlane, kinds, name: str, request: pytest.FixtureRequest
) -> None:
    manifest = manifests()[name]
    if manifest["kind"] == "Pod":
        request.getfixturevalue("account")
    kind = kinds[manifest["apiVersion"], manifest["kind"]]
    assert asked(control_plane.access, manifest, kind) == stored()[name]
