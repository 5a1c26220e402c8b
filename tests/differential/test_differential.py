"""The same requests against a genuine kube-apiserver and the embedded API: same answers."""

from pathlib import Path

import pytest

from tests.differential.allowed import ALLOWED, Difference
from tests.differential.case import Case, load_cases
from tests.differential.compare import difference
from tests.differential.normal import normalised
from tests.differential.player import Server, play
from tests.harness.access import Access
from tests.harness.controlplane import ControlPlane
from tests.harness.embedded import EmbeddedServer
from tests.harness.kubectl import Kubectl


@pytest.fixture(scope="session")
def servers(
    control_plane: ControlPlane,
    embedded_server: EmbeddedServer,
    kubectl_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Server, Server]:
    """Kubernetes first; each with a kubectl whose discovery cache is kept between cases."""

    def side(name: str, access: Access) -> Server:
        home = tmp_path_factory.mktemp(f"kubectl-{name}")
        return Server(name, access, Kubectl(kubectl_path, access.kubeconfig, home))

    return side("kubernetes", control_plane.access), side("embedded", embedded_server.access)


CASES = load_cases()
_played: set[str] = set()
_needed: set[Difference] = set()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_answers_as_kubernetes_does(servers: tuple[Server, Server], case: Case) -> None:
    expected, actual = (
        normalised(case, play(case, server), server.access.url) for server in servers
    )
    found = difference(case, expected, actual, ALLOWED)
    assert not found, f"\n{found}"
    _played.add(str(case))
    for entry in ALLOWED:
        others = [other for other in ALLOWED if other is not entry]
        if entry.covers(case) and difference(case, expected, actual, others):
            _needed.add(entry)


@pytest.mark.usefixtures("servers")
def test_every_allowed_difference_is_there() -> None:
    if len(_played) < len(CASES):
        pytest.skip("says something only after all cases have been played")
    assert [entry for entry in ALLOWED if entry not in _needed] == []
