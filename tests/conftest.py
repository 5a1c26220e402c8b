"""Servers for every test: a genuine control plane, the embedded API, kubectl.

Both servers start when the first test asks, once in each of the workers that share the tests.
Files that take long come first, so that no worker is left alone with one at the end.
"""

import gc
import os
import shutil
import signal
import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from kilonova.kube.client.client import Client
from kilonova.kube.client.config.client_config import connect
from tests.harness import tiers
from tests.harness.access import ServerAccess
from tests.harness.control_plane import MISSING_BINARIES_MESSAGE, ControlPlane, find_binaries
from tests.harness.embedded_server import EmbeddedServer
from tests.harness.kubectl import Kubectl, find_kubectl
from tests.harness.real_parts import require_part

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

INTERRUPT_INTERVAL_SECONDS = 20.0
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


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of our own; see `tests/harness/tiers.py`."""
    parser.addoption("--tier", choices=(tiers.QUICK, tiers.ALL, tiers.FAULTS), default=tiers.ALL)
    parser.addoption("--record-durations", action="store_true")


def pytest_configure(config: pytest.Config) -> None:
    """Record durations where asked, in the one process that hears of every test."""
    is_worker = hasattr(config, "workerinput")
    if config.getoption("--record-durations") and not is_worker:
        config.pluginmanager.register(tiers.DurationRecorder())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the tests of the tier, longest files first."""
    durations = tiers.read_durations()
    tiers.mark_tiers(items, durations)
    tier = str(config.getoption("--tier"))
    left_out = [item for item in items if not tiers.is_in_tier(item, tier)]
    items[:] = [item for item in items if tiers.is_in_tier(item, tier)]
    config.hook.pytest_deselected(items=left_out)
    tiers.sort_by_duration(items, durations)


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
        signal.setitimer(signal.ITIMER_REAL, settings.timeout, INTERRUPT_INTERVAL_SECONDS)
    return done


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Limit the time of a failed test's teardown, too: pytest-timeout stops at a failure."""
    settings = node.stash.get(_TIME_LIMIT, None)
    if settings is not None and not node.config.getoption("usepdb"):
        node.ihook.pytest_timeout_set_timer(item=node, settings=settings)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let the garbage collector pass by what all tests share: it lives as long as they do.

    During the collection of tests it would take two thirds of the CPU time. Afterwards it runs less
    often than by default: it would take a fifth of that of tests that run a cluster in this
    process.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 10, 10)
        gc.enable()


@pytest.fixture(scope="session")
def control_plane_binaries() -> Path:
    """The folder with etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl."""
    found = find_binaries()
    if found is None:
        pytest.skip(MISSING_BINARIES_MESSAGE)
    return found


@pytest.fixture(scope="session")
def s3_server_part() -> Path:
    """The folder of the S3 server; `tests.harness.s3_server` starts one."""
    return require_part("s3-server")


@pytest.fixture(scope="session")
def prometheus_part() -> Path:
    """The folder with prometheus, promtool, alertmanager and amtool."""
    return require_part("prometheus")


@pytest.fixture(scope="session")
def envoy_part() -> Path:
    """The folder of Envoy's wheel; `tools.realparts.parts.envoy` names the command in it."""
    return require_part("envoy")


@pytest.fixture(scope="session")
def triton_part() -> Path:
    """The folder of Triton; `tests.harness.triton_server` starts one."""
    return require_part("triton")


@pytest.fixture(scope="session")
def tritonclient_part() -> Path:
    """The folder of Triton's client and perf_analyzer; `tests.harness.triton_client` runs them."""
    return require_part("tritonclient")


@pytest.fixture(scope="session")
def otelcol_part() -> Path:
    """The folder of the OpenTelemetry collector; `tests.harness.otel_collector` starts one."""
    return require_part("otelcol")


@pytest.fixture(scope="session")
def k6_part() -> Path:
    """The folder of k6; `tools.realparts.parts.k6` names the command in it."""
    return require_part("k6")


@pytest.fixture(scope="session")
def oci_registry_part() -> Path:
    """The folder of the OCI registry."""
    return require_part("oci-registry")


@pytest.fixture(scope="session")
def go_command() -> str:
    """The go command."""
    found = shutil.which("go")
    if found is None:
        pytest.skip("no go on the PATH: Go 1.26 or newer is needed to build a program")
    return found


@pytest.fixture(scope="session")
def control_plane(
    control_plane_binaries: Path,  # skips without them
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ControlPlane]:
    """A genuine kube-apiserver with the few controllers that our own API has built in."""
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
    found = find_kubectl()
    if found is None:
        pytest.skip(f"no kubectl, and {MISSING_BINARIES_MESSAGE}")
    return found


@dataclass(frozen=True)
class Api:
    """A server under test, and a namespace that this test has for itself."""

    server: str
    access: ServerAccess
    namespace: str

    def client(self, field_manager: str = "kilonova") -> Client:
        """A client of ours, as the administrator; the caller closes it."""
        return connect(self.access.kubeconfig, field_manager=field_manager)


_numbers = count(1)


@pytest.fixture(params=["embedded", "kubernetes"])
def api(request: pytest.FixtureRequest) -> Api:
    """Each server in turn: what passes on both is what Kubernetes does."""
    fixture = {"embedded": "embedded_server", "kubernetes": "control_plane"}[request.param]
    return create_namespace(request.param, request.getfixturevalue(fixture).access)


def create_namespace(server: str, access: ServerAccess) -> Api:
    """A new namespace on a server."""
    namespace = f"test-{next(_numbers)}"
    status, answer = access.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    assert status == 201, answer
    return Api(server, access, namespace)


@pytest.fixture
def kubectl(kubectl_path: Path, api: Api, tmp_path: Path) -> Kubectl:
    """kubectl on the server under test, with a home of its own."""
    return Kubectl(kubectl_path, api.access.kubeconfig, tmp_path)
