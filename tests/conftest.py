"""Servers for every test: a genuine control plane, the embedded API, kubectl.

Both servers start when the first test asks, once in each of the workers that share the tests.
Files that take long come first, so that no worker is left alone with one at the end.
"""

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from kilonova.kube.access import connect
from kilonova.kube.client import Client
from tests.harness.access import Access
from tests.harness.controlplane import HOW_TO_GET, ControlPlane, binaries
from tests.harness.embedded import EmbeddedServer
from tests.harness.kubectl import Kubectl, kubectl_binary

# A gate must say the same of the same commit: there the examples are always the same ones.
settings.register_profile("gate", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None)
settings.load_profile("gate" if os.environ.get("CI") else "search")

# Workers, and the processes that tests start, need not each compile what one of them has compiled.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A signal that whoever started the tests ignores (`nohup`, a background job of a script) would be
# ignored by every process that a test starts, and no Ctrl-C would end these. A handler that does
# nothing is as good here, and does not outlast exec.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)

LONGEST = (
    "faults/test_kill.py",
    "bench/test_bench_workloads.py",
    "differential/test_differential.py",
    "workloads/scenarios/test_gang_scheduling.py",
    "workloads/scenarios/test_faults_of_the_operator.py",
    "e2e/test_rollouts.py",
    "e2e/browser/test_console_pages.py",
    "workloads/cliques/test_cliques_that_crash.py",
    "e2e/browser/test_console_live.py",
    "e2e/browser/test_console_fleet.py",
    "e2e/browser/test_console_actions.py",
    "e2e/browser/test_console_keyboard.py",
    "e2e/test_process_node.py",
    "local/controllers/apps/test_controllers_that_crash.py",
    "workloads/scenarios/test_rolling_updates.py",
    "workloads/scenarios/test_gang_termination.py",
    "scheduler/extender/test_extender_with_kube_scheduler.py",
    "scheduler/process/test_scheduler_processes.py",
    "scheduler/process/test_deployed_scheduler.py",
    "local/schema/cel/test_cel_bounds.py",
    "workloads/replicas/test_replica_stories.py",
    "workloads/scenarios/test_cascade_delete.py",
    "local/controllers/batch/test_job_crashes.py",
    "workloads/process/test_deployed_operator.py",
    "workloads/scenarios/test_update_pace.py",
    "bench/test_bench_cluster.py",
    "workloads/scenarios/test_on_delete.py",
    "workloads/scenarios/test_kai_backend.py",
    "workloads/scenarios/test_topology.py",
    "workloads/scenarios/test_mnnvl.py",
    "workloads/scenarios/test_completion.py",
    "workloads/scenarios/test_operator_upgrades.py",
    "workloads/scenarios/test_resource_sharing.py",
    "workloads/scenarios/test_startup_order.py",
    "workloads/test_operator_repairs.py",
    "workloads/cliques/test_clique_rounds.py",
    "workloads/test_operator_crashes.py",
    "workloads/test_operator_updates.py",
    "cli/test_demo.py",
    "e2e/browser/test_console_few_rights.py",
    "examples/test_workload_examples.py",
    "cli/test_lists.py",
    "local/process/unprivileged/test_ordinary_user.py",
    "scheduler/test_scheduler_fault_runs.py",
    "scheduler/test_scheduler_reservations.py",
    "local/process/kubelet/test_process_pods.py",
    "cli/test_life_of_a_cluster.py",
    "scheduler/core/test_defragmenting.py",
    "workloads/backends/test_backend_stories.py",
    "cli/test_run_operator.py",
    "local/nodes/test_simulated_nodes.py",
    "workloads/test_updates_without_room.py",
    "cli/test_tour.py",
    "local/nodes/test_trouble.py",
    "local/process/kubelet/test_process_command.py",
    "examples/test_scheduling_feature_examples.py",
    "local/streaming/test_websocket_protocols.py",
    "local/bad_input/test_slow_readers.py",
)
"""Files that take more than some ten seconds, the longest first, more or less."""

INTERRUPTED_EVERY = 20.0
"""Seconds between two attempts to end a test that has taken longer than it may."""

CONTROLLERS = ",".join(
    f"{name}-controller"
    for name in (
        "garbage-collector",
        "namespace",
        "serviceaccount",
        "root-ca-certificate-publisher",
        "serviceaccount-token",
        "clusterrole-aggregation",
    )
)
"""What runs beside either server; the rest would change objects under a test."""
EMBEDDED_CONTROLLERS = f"{CONTROLLERS},definition-controller,event-expiry"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest; the others stay in their order."""
    here = Path(__file__).parent
    places = {here / name: place for place, name in enumerate(LONGEST)}
    missing = [str(path) for path in places if not path.exists()]
    if missing:
        raise pytest.UsageError(f"no such files, named in LONGEST: {', '.join(missing)}")
    items.sort(key=lambda item: places.get(item.path, len(places)))


_TIME_LIMIT = pytest.StashKey[Any]()


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(
    item: pytest.Item, settings: Any
) -> Generator[None, bool | None, bool | None]:
    """Interrupt a test that is over its time again and again, until it has ended.

    Whichever task of an event loop is running may swallow what the signal raises.
    """
    done = yield
    item.stash[_TIME_LIMIT] = settings
    if signal.getitimer(signal.ITIMER_REAL)[0]:
        signal.setitimer(signal.ITIMER_REAL, settings.timeout, INTERRUPTED_EVERY)
    return done


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Limit the time of a failed test's teardown, too: pytest-timeout stops at a failure."""
    settings = node.stash.get(_TIME_LIMIT, None)
    if settings is not None and not node.config.getoption("usepdb"):
        node.ihook.pytest_timeout_set_timer(item=node, settings=settings)


def pytest_collection_finish() -> None:
    """Let the collector pass by what all tests share: it lives as long as they do."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A genuine kube-apiserver with the few controllers that our own API has built in."""
    if binaries() is None:
        pytest.skip(HOW_TO_GET)
    folder = tmp_path_factory.mktemp("control-plane")
    with ControlPlane.start(folder, controllers=CONTROLLERS, authorization="RBAC") as plane:
        yield plane


@pytest.fixture(scope="session")
def embedded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """The embedded API, bare, in a process of its own."""
    data = tmp_path_factory.mktemp("embedded") / "data"
    options = ("--port", "0", f"--controllers={EMBEDDED_CONTROLLERS}")
    with EmbeddedServer.start(data, *options) as server:
        yield server


@pytest.fixture(scope="session")
def kubectl_path() -> Path:
    """The kubectl to use: the built one first."""
    found = kubectl_binary()
    if found is None:
        pytest.skip(f"no kubectl, and {HOW_TO_GET}")
    return found


@dataclass(frozen=True)
class Api:
    """A server under test, and a namespace that this test has for itself."""

    server: str
    access: Access
    namespace: str

    def client(self) -> Client:
        """A client of ours, as the administrator; the caller closes it."""
        return connect(self.access.kubeconfig)


_numbers = count(1)


@pytest.fixture(params=["embedded", "kubernetes"])
def api(request: pytest.FixtureRequest) -> Api:
    """Each server in turn: what passes on both is what Kubernetes does."""
    fixture = {"embedded": "embedded_server", "kubernetes": "control_plane"}[request.param]
    access: Access = request.getfixturevalue(fixture).access
    namespace = f"test-{next(_numbers)}"
    status, answer = access.ask("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    assert status == 201, answer
    return Api(request.param, access, namespace)


@pytest.fixture
def kubectl(kubectl_path: Path, api: Api, tmp_path: Path) -> Kubectl:
    """kubectl on the server under test, with a home of its own."""
    return Kubectl(kubectl_path, api.access.kubeconfig, tmp_path)
