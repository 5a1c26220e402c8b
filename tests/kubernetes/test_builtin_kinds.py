"""The recorded responses for built-in kinds are those of kube-apiserver."""

from collections.abc import Iterator

import pytest

from tests.harness.control_plane import ControlPlane
from tests.local.apiserver.kinds.recorded_objects import (
    create_on_server,
    manifests,
    served_kinds,
    stored,
)


@pytest.fixture(scope="module")
def kinds():
    return served_kinds()


@pytest.fixture
def account(control_plane: ControlPlane) -> Iterator[None]:
    """The service account of one of the pods."""
    path = "/api/v1/namespaces/default/serviceaccounts"
    control_plane.access.request("POST", path, {"metadata": {"name": "robot"}})
    yield
    control_plane.access.request("DELETE", f"{path}/robot")


@pytest.mark.parametrize("name", manifests())
def test_recorded_responses_match_kubernetes(
    control_plane: ControlPlane, kinds, name: str, request: pytest.FixtureRequest
) -> None:
    manifest = manifests()[name]
    if manifest["kind"] == "Pod":
        request.getfixturevalue("account")
    kind = kinds[manifest["apiVersion"], manifest["kind"]]
    assert create_on_server(control_plane.access, manifest, kind) == stored()[name]
