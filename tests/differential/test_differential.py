"""The same requests to kube-apiserver and to the embedded API return the same responses."""

from pathlib import Path

import pytest

from tests.differential.allowed_differences import ALLOWED, AllowedDifference
from tests.differential.case import Case, load_cases
from tests.differential.case_runner import ComparedServer, run_case
from tests.differential.comparison import format_difference
from tests.differential.normalisation import normalise
from tests.harness.access import ServerAccess
from tests.harness.control_plane import ControlPlane
from tests.harness.embedded_server import EmbeddedServer
from tests.harness.kubectl import Kubectl


@pytest.fixture(scope="session")
def servers(
    control_plane: ControlPlane,
    embedded_server: EmbeddedServer,
    kubectl_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[ComparedServer, ComparedServer]:
    """Kubernetes first; each with a kubectl whose discovery cache is kept between cases."""

    def side(name: str, access: ServerAccess) -> ComparedServer:
        home = tmp_path_factory.mktemp(f"kubectl-{name}")
        return ComparedServer(name, access, Kubectl(kubectl_path, access.kubeconfig, home))

    return side("kubernetes", control_plane.access), side("embedded", embedded_server.access)


CASES = load_cases()
_run_topics: set[str] = set()
_used_differences: set[AllowedDifference] = set()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_answers_as_kubernetes_does(
    servers: tuple[ComparedServer, ComparedServer], case: Case
) -> None:
    expected, actual = (
        normalise(case, run_case(case, server), server.access.url) for server in servers
    )
    found = format_difference(case, expected, actual, ALLOWED)
    assert not found, f"\n{found}"
    _run_topics.add(str(case))
    for entry in ALLOWED:
        others = [other for other in ALLOWED if other is not entry]
        if entry.covers(case) and format_difference(case, expected, actual, others):
            _used_differences.add(entry)


@pytest.mark.usefixtures("servers")
def test_every_allowed_difference_occurs() -> None:
    if len(_run_topics) < len(CASES):
        pytest.skip("is meaningful only after all cases have run")
    assert [entry for entry in ALLOWED if entry not in _used_differences] == []
