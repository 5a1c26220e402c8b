"""Checks of `kilonova doctor`: a table of facts and findings, without a machine or a cluster."""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kilonova.api.crds import load_definitions
from kilonova.api.json import JsonObject
from kilonova.cli.doctor.checks import evaluate_facts, parse_version
from kilonova.cli.doctor.facts import (
    ClusterFacts,
    DataDirectoryFacts,
    Facts,
    KubectlFacts,
    LeaseFacts,
    MachineFacts,
    Permission,
    TargetFacts,
    WebhookFacts,
)
from kilonova.component.finding import Finding
from kilonova.kube.serving.certificates import CertificateAuthority

NOW = 1_800_000_000.0
DIRECTORY = DataDirectoryFacts(Path("/data"), exists=True, free=50 << 30)
MACHINE = MachineFacts((3, 12, 1), KubectlFacts("/bin/kubectl", "v1.36.3"), DIRECTORY, mounts=True)


def _stored() -> dict[str, JsonObject]:
    """The CRDs as a server stores them: with defaults, and established."""
    found: dict[str, JsonObject] = {}
    for each in load_definitions():
        each["spec"]["conversion"] = {"strategy": "None"}
        each["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
        found[each["metadata"]["name"]] = each
    return found


def _ca_certificate(days: float) -> bytes:
    made = datetime.fromtimestamp(NOW, UTC) + timedelta(days=days) - timedelta(days=3650)
    return CertificateAuthority.create("hooks", made).cert_pem


CLUSTER = ClusterFacts(
    version="v1.36.3",
    server_time=NOW,
    now=NOW,
    user="anna",
    definitions=_stored(),
    webhooks=(),
    leaders={
        name: LeaseFacts(f"kilonova-{name}", "pod-1", NOW - 2, 15)
        for name in ("operator", "scheduler", "serving")
    },
    nodes=("n1",),
    node_leases=(LeaseFacts("n1", "n1", NOW - 5, 40),),
)
HEALTHY = Facts(
    MACHINE, TargetFacts("https://host", "lab", "default"), CLUSTER, tuple(load_definitions())
)


def with_machine(**other: object) -> Facts:
    return replace(HEALTHY, machine=replace(MACHINE, **other))  # type: ignore[arg-type]


def with_data_directory(**other: object) -> Facts:
    return with_machine(data_directory=replace(DIRECTORY, **other))  # type: ignore[arg-type]


def with_cluster(**other: object) -> Facts:
    return replace(HEALTHY, cluster=replace(CLUSTER, **other))  # type: ignore[arg-type]


def with_webhook(**other: object) -> Facts:
    healthy = WebhookFacts("guard", "a.b.c", "Fail", _ca_certificate(3650), "ns/svc", 1)
    return with_cluster(webhooks=(replace(healthy, **other),))  # type: ignore[arg-type]


def with_node_leases(leases: Iterable[LeaseFacts], **other: object) -> Facts:
    known = tuple(leases)
    return with_cluster(nodes=tuple(each.name for each in known), node_leases=known, **other)


def _without(name: str) -> dict[str, JsonObject]:
    return {each: one for each, one in _stored().items() if each != name}


def _only(names: tuple[str, ...]) -> dict[str, JsonObject]:
    return {each: one for each, one in _stored().items() if each in names}


def _other_schema(name: str) -> dict[str, JsonObject]:
    stored = deepcopy(_stored())
    stored[name]["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": {"type": "object"}}
    return stored


def _unserved(name: str) -> dict[str, JsonObject]:
    stored = deepcopy(_stored())
    del stored[name]["status"]
    return stored


LEADERS = CLUSTER.leaders or {}
LEASES = CLUSTER.node_leases or ()
QUEUES = "queues.scheduling.kilonova.dev"
SCHEDULER_KINDS = ("podgangs.scheduler.grove.io", QUEUES, "reservations.scheduling.kilonova.dev")
UP = "v1.36.3+kilonova.0.1.0"
COMPONENTS = {"api": "running", "operator": "running", "scheduler": "running"}

CASES = {
    "old Python": (with_machine(python=(3, 10, 2)), "problem", "Python", "3.10.2 is too old"),
    "no kubectl": (with_machine(kubectl=None), "warning", "kubectl", "is not on the PATH"),
    "kubectl without a version": (
        with_machine(kubectl=KubectlFacts("/k")),
        "warning",
        "kubectl",
        "reports no version",
    ),
    "kubectl with a large version skew": (
        with_machine(kubectl=KubectlFacts("/k", "v1.34.1")),
        "warning",
        "kubectl",
        "more than one minor version",
    ),
    "kubectl with a small version skew": (
        with_machine(kubectl=KubectlFacts("/k", "v1.35.0")),
        "ok",
        "kubectl",
        "v1.35.0 at /k",
    ),
    "full disk": (with_data_directory(free=5 << 20), "problem", "disk", "5 MiB free"),
    "low disk space": (with_data_directory(free=500 << 20), "warning", "disk", "500 MiB free"),
    "data directory readable by others": (
        with_data_directory(mode=0o755),
        "problem",
        "data directory",
        "mode 0755",
    ),
    "running cluster": (
        with_data_directory(in_use=True, url="https://127.0.0.1:7443"),
        "ok",
        "data directory",
        "a cluster is running in /data at https://127.0.0.1:7443",
    ),
    "port in use": (with_data_directory(port_free=False), "warning", "port", "7443"),
    "no mounts": (
        with_machine(mounts=False, mounts_fix="as root"),
        "warning",
        "process node",
        "without volumes",
    ),
    "no kubeconfig": (
        replace(HEALTHY, target=TargetFacts(problem="none", configured=False), cluster=None),
        "warning",
        "kubeconfig",
        "no cluster is configured",
    ),
    "invalid kubeconfig": (
        replace(HEALTHY, target=TargetFacts(problem="there is no context 'x'"), cluster=None),
        "problem",
        "kubeconfig",
        "there is no context 'x'",
    ),
    "unreachable server": (
        replace(HEALTHY, cluster=ClusterFacts("does not answer", "start it")),
        "problem",
        "cluster",
        "does not answer",
    ),
    "old server": (with_cluster(version="v1.27.9"), "problem", "server", "is too old"),
    "tested server": (with_cluster(version="v1.36.0"), "ok", "server", "v1.36.0 answers"),
    "untested server": (with_cluster(version="v1.33.0-eks"), "ok", "server", "tested with 1.36"),
    "server clock slightly ahead": (
        with_cluster(server_time=NOW + 20),
        "warning",
        "clock",
        "20s ahead of",
    ),
    "server clock far behind": (
        with_cluster(server_time=NOW - 300),
        "problem",
        "clock",
        "5m behind",
    ),
    "unknown user": (with_cluster(user=""), "warning", "user", "does not report it"),
    "missing permission": (
        with_cluster(denied=(Permission("list", "apps", "things", "reading"),)),
        "warning",
        "permissions",
        "reading will be forbidden: you may not list things.apps",
    ),
    "no CRDs": (with_cluster(definitions={}), "problem", "CRDs", "none of Kilonova's is installed"),
    "missing CRD": (
        with_cluster(definitions=_without(QUEUES)),
        "problem",
        "CRDs",
        f"missing: {QUEUES}",
    ),
    "CRDs of one component alone": (
        with_cluster(definitions=_only(SCHEDULER_KINDS)),
        "ok",
        "CRDs",
        "all 3 are served, in this version; not installed: those of operator",
    ),
    "CRD of another version": (
        with_cluster(definitions=_other_schema(QUEUES)),
        "warning",
        "CRDs",
        f"of another version: {QUEUES}",
    ),
    "CRD that is not served": (
        with_cluster(definitions=_unserved(QUEUES)),
        "problem",
        "CRDs",
        f"not served: {QUEUES}",
    ),
    "CRDs that cannot be listed": (
        with_cluster(definitions=None),
        "warning",
        "CRDs",
        "cannot be listed",
    ),
    "webhook without problems": (with_webhook(), "ok", "webhooks", "1 without problems"),
    "webhook with a URL": (
        with_webhook(service="", endpoints=None),
        "ok",
        "webhooks",
        "1 without problems",
    ),
    "webhook without endpoints": (
        with_webhook(endpoints=0),
        "problem",
        "webhook guard/a.b.c",
        "Service ns/svc has no ready endpoints, so its requests are rejected",
    ),
    "webhook that may fail": (
        with_webhook(endpoints=0, failure_policy="Ignore"),
        "warning",
        "webhook guard/a.b.c",
        "so it is ignored",
    ),
    "webhook without caBundle": (
        with_webhook(ca_pem=b""),
        "problem",
        "webhook guard/a.b.c",
        "has no caBundle",
    ),
    "webhook with an invalid caBundle": (
        with_webhook(ca_pem=b"no PEM"),
        "problem",
        "webhook guard/a.b.c",
        "contains no certificate",
    ),
    "expired CA": (
        with_webhook(ca_pem=_ca_certificate(-1)),
        "problem",
        "webhook guard/a.b.c",
        "its CA expired on",
    ),
    "CA about to expire": (
        with_webhook(ca_pem=_ca_certificate(3)),
        "warning",
        "webhook guard/a.b.c",
        "its CA expires on",
    ),
    "CA rotation": (
        with_webhook(ca_pem=_ca_certificate(-1) + _ca_certificate(900)),
        "ok",
        "webhooks",
        "1 without problems",
    ),
    "stale scheduler Lease": (
        with_cluster(
            leaders=LEADERS
            | {"scheduler": LeaseFacts("kilonova-scheduler", "pod-9", NOW - 600, 15)}
        ),
        "problem",
        "scheduler",
        "pod-9 last renewed its Lease 10m ago",
    ),
    "operator Lease released": (
        with_cluster(leaders=LEADERS | {"operator": LeaseFacts("kilonova-operator", "", NOW, 15)}),
        "warning",
        "operator",
        "no leader",
    ),
    "no scheduler Lease": (
        with_cluster(leaders={"operator": LEADERS["operator"]}),
        "warning",
        "scheduler",
        "there is no Lease kilonova-scheduler in namespace kilonova-system",
    ),
    "fresh leader Lease": (HEALTHY, "ok", "scheduler", "leader pod-1, Lease renewed 2s ago"),
    "leader Lease in the future": (
        with_cluster(leaders=LEADERS | {"operator": LeaseFacts("o", "pod-1", NOW + 4, 15)}),
        "ok",
        "operator",
        "leader pod-1, Lease renewed 0s ago",
    ),
    "leader Leases that cannot be listed": (
        with_cluster(leaders=None),
        "warning",
        "operator, scheduler, serving",
        "you may not list leases in namespace kilonova-system",
    ),
    "component inside of up": (
        with_cluster(version=UP, components=COMPONENTS | {"operator": "starting"}, leaders={}),
        "ok",
        "operator",
        "is starting, inside of `kilonova up`",
    ),
    "degraded component inside of up": (
        with_cluster(
            version=UP,
            components=COMPONENTS | {"scheduler": "degraded"},
            problems={"scheduler": "failed once and is restarted with backoff: boom"},
            leaders={},
        ),
        "problem",
        "scheduler",
        "failed once and is restarted with backoff: boom (inside of `kilonova up`)",
    ),
    "component disabled in up": (
        with_cluster(version=UP, components=COMPONENTS | {"scheduler": "off"}, leaders={}),
        "warning",
        "scheduler",
        "disabled in this `kilonova up` (--no-scheduler), and not running outside",
    ),
    "leader of a component that few clusters have": (
        with_cluster(leaders=LEADERS | {"member": LeaseFacts("m", "pod-1", NOW - 600, 15)}),
        "problem",
        "member",
        "pod-1 last renewed its Lease 10m ago",
    ),
    "leader of a component that is not installed": (
        with_cluster(
            definitions=_only(SCHEDULER_KINDS), leaders={"scheduler": LEADERS["scheduler"]}
        ),
        "ok",
        "scheduler",
        "leader pod-1, Lease renewed 2s ago",
    ),
    "check of a component": (
        with_cluster(contributed=(Finding("problem", "widgets", "all are broken", "mend them"),)),
        "problem",
        "widgets",
        "all are broken",
    ),
    "component outside of up": (
        with_cluster(version=UP, components=COMPONENTS | {"scheduler": "off"}),
        "ok",
        "scheduler",
        "leader pod-1, Lease renewed 2s ago",
    ),
    "up on another machine": (
        with_cluster(version=UP, leaders={}),
        "ok",
        "operator, scheduler, serving",
        "run `kilonova status` on its machine",
    ),
    "stale node Leases": (
        with_node_leases(LeaseFacts(f"n{at}", "", NOW - 90 * (at > 0), 40) for at in range(6)),
        "warning",
        "nodes",
        "1 of 6 have a fresh Lease; not renewed for a minute: n1, n2, n3 and 2 more",
    ),
    "nodes without Leases": (
        with_cluster(nodes=tuple(f"n{at}" for at in range(1, 41))),
        "warning",
        "nodes",
        "1 of 40 have a fresh Lease; without a Lease: n2, n3, n4 and 36 more",
    ),
    "Lease of a deleted node": (
        with_cluster(node_leases=(*LEASES, LeaseFacts("gone", "gone", NOW - 9000, 40))),
        "ok",
        "nodes",
        "1 node, all with a fresh Lease",
    ),
    "node clock ahead": (
        with_node_leases([LeaseFacts("n1", "n1", NOW + 100, 40)]),
        "warning",
        "nodes",
        "the clocks are ahead on n1",
    ),
    "node Leases by the server clock": (
        with_node_leases([LeaseFacts("n1", "n1", NOW - 101, 40)], server_time=NOW - 100),
        "ok",
        "nodes",
        "1 node, all with a fresh Lease",
    ),
    "nodes that cannot be listed": (
        with_cluster(nodes=None),
        "warning",
        "nodes",
        "cannot be listed",
    ),
    "Leases that cannot be listed": (
        with_cluster(node_leases=None),
        "warning",
        "nodes",
        "1 node, whose Leases cannot be listed",
    ),
    "no nodes": (with_cluster(nodes=()), "warning", "nodes", "there are none"),
}


@pytest.mark.parametrize(("facts", "level", "check", "text"), CASES.values(), ids=CASES)
def test_facts_produce_a_finding(facts: Facts, level: str, check: str, text: str):
    about = [each for each in evaluate_facts(facts) if each.check == check]
    assert any(each.level == level and text in each.message for each in about), about


@pytest.mark.parametrize("case", CASES)
def test_every_problem_has_a_fix(case: str):
    found = evaluate_facts(CASES[case][0])
    assert [each for each in found if each.level != "ok" and not each.fix] == []


def test_healthy_facts_are_all_ok():
    assert {each.level for each in evaluate_facts(HEALTHY)} == {"ok"}


def test_unreachable_cluster_has_a_single_finding():
    unreachable = replace(HEALTHY, cluster=ClusterFacts("does not answer", "start it"))
    assert evaluate_facts(unreachable)[-1] == Finding(
        "problem", "cluster", "does not answer", "start it"
    )


@pytest.mark.parametrize(
    ("text", "version"), [("v1.36.3+x", (1, 36)), ("1.9", (1, 9)), ("", None), ("next", None)]
)
def test_versions_are_parsed(text: str, version: tuple[int, int] | None):
    assert parse_version(text) == version
