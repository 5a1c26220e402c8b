"""What `kilonova doctor` makes of facts: a table of them, without a machine or a cluster."""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kilonova.api.crds import definitions
from kilonova.api.json import JsonObject
from kilonova.cli.doctorchecks import findings, version_of
from kilonova.cli.doctorfacts import (
    Cluster,
    Facts,
    Folder,
    Kubectl,
    Lease,
    Machine,
    Right,
    Target,
    Webhook,
)
from kilonova.cli.doctorfinding import Finding
from kilonova.kube.certificates import Authority

NOW = 1_800_000_000.0
FOLDER = Folder(Path("/data"), exists=True, free=50 << 30)
MACHINE = Machine((3, 12, 1), Kubectl("/bin/kubectl", "v1.36.3"), FOLDER, mounts=True)


def _stored() -> dict[str, JsonObject]:
    """The definitions as a server has them: with defaults, and served."""
    found: dict[str, JsonObject] = {}
    for each in definitions():
        each["spec"]["conversion"] = {"strategy": "None"}
        each["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
        found[each["metadata"]["name"]] = each
    return found


def _authority(days: float) -> bytes:
    made = datetime.fromtimestamp(NOW, UTC) + timedelta(days=days) - timedelta(days=3650)
    return Authority.create("hooks", made).cert_pem


CLUSTER = Cluster(
    version="v1.36.3",
    server_time=NOW,
    now=NOW,
    user="anna",
    definitions=_stored(),
    webhooks=(),
    leaders={
        name: Lease(f"kilonova-{name}", "pod-1", NOW - 2, 15) for name in ("operator", "scheduler")
    },
    nodes=("n1",),
    node_leases=(Lease("n1", "n1", NOW - 5, 40),),
)
HEALTHY = Facts(MACHINE, Target("https://host", "lab", "default"), CLUSTER, tuple(definitions()))


def on_machine(**other: object) -> Facts:
    return replace(HEALTHY, machine=replace(MACHINE, **other))  # type: ignore[arg-type]


def in_folder(**other: object) -> Facts:
    return on_machine(folder=replace(FOLDER, **other))  # type: ignore[arg-type]


def of_cluster(**other: object) -> Facts:
    return replace(HEALTHY, cluster=replace(CLUSTER, **other))  # type: ignore[arg-type]


def of_webhook(**other: object) -> Facts:
    usual = Webhook("guard", "a.b.c", "Fail", _authority(3650), "ns/svc", 1)
    return of_cluster(webhooks=(replace(usual, **other),))  # type: ignore[arg-type]


def of_nodes(leases: Iterable[Lease], **other: object) -> Facts:
    known = tuple(leases)
    return of_cluster(nodes=tuple(each.name for each in known), node_leases=known, **other)


def _without(name: str) -> dict[str, JsonObject]:
    return {each: one for each, one in _stored().items() if each != name}


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
UP = "v1.36.3+kilonova.0.1.0"
ROOMS = {"api": "running", "operator": "running", "scheduler": "running"}

CASES = {
    "old Python": (on_machine(python=(3, 10, 2)), "problem", "Python", "3.10.2 is too old"),
    "no kubectl": (on_machine(kubectl=None), "warning", "kubectl", "is not on the PATH"),
    "kubectl that says nothing": (
        on_machine(kubectl=Kubectl("/k")),
        "warning",
        "kubectl",
        "does not tell its version",
    ),
    "kubectl far from the server": (
        on_machine(kubectl=Kubectl("/k", "v1.34.1")),
        "warning",
        "kubectl",
        "more than one minor version",
    ),
    "kubectl near the server": (
        on_machine(kubectl=Kubectl("/k", "v1.35.0")),
        "ok",
        "kubectl",
        "v1.35.0 at /k",
    ),
    "full disk": (in_folder(free=5 << 20), "problem", "disk", "5 MiB free"),
    "little disk": (in_folder(free=500 << 20), "warning", "disk", "500 MiB free"),
    "a folder that others read": (in_folder(mode=0o755), "problem", "folder", "mode 0755"),
    "a cluster that runs": (
        in_folder(taken=True, url="https://127.0.0.1:7443"),
        "ok",
        "folder",
        "a cluster runs on /data at https://127.0.0.1:7443",
    ),
    "a port that is taken": (in_folder(port_free=False), "warning", "port", "7443"),
    "no mounts": (
        on_machine(mounts=False, mounts_fix="as root"),
        "warning",
        "process node",
        "without volumes",
    ),
    "no kubeconfig": (
        replace(HEALTHY, target=Target(problem="none", configured=False), cluster=None),
        "warning",
        "kubeconfig",
        "no cluster is meant",
    ),
    "a bad kubeconfig": (
        replace(HEALTHY, target=Target(problem="there is no context 'x'"), cluster=None),
        "problem",
        "kubeconfig",
        "there is no context 'x'",
    ),
    "a server that is away": (
        replace(HEALTHY, cluster=Cluster("does not answer", "start it")),
        "problem",
        "cluster",
        "does not answer",
    ),
    "an old server": (of_cluster(version="v1.27.9"), "problem", "server", "is too old"),
    "a server we know": (of_cluster(version="v1.36.0"), "ok", "server", "v1.36.0 answers"),
    "another server": (of_cluster(version="v1.33.0-eks"), "ok", "server", "tested is 1.36"),
    "a clock a little ahead": (
        of_cluster(server_time=NOW + 20),
        "warning",
        "clock",
        "20s ahead of",
    ),
    "a clock far behind": (of_cluster(server_time=NOW - 300), "problem", "clock", "5m behind"),
    "nobody": (of_cluster(user=""), "warning", "user", "does not tell who you are"),
    "few rights": (
        of_cluster(denied=(Right("list", "apps", "things", "looking"),)),
        "warning",
        "rights",
        "looking will be refused: you may not list things.apps",
    ),
    "no kinds": (of_cluster(definitions={}), "problem", "kinds", "none of Kilonova's"),
    "a kind is missing": (
        of_cluster(definitions=_without(QUEUES)),
        "problem",
        "kinds",
        f"missing: {QUEUES}",
    ),
    "a kind of another version": (
        of_cluster(definitions=_other_schema(QUEUES)),
        "warning",
        "kinds",
        f"of another version: {QUEUES}",
    ),
    "a kind that is not served": (
        of_cluster(definitions=_unserved(QUEUES)),
        "problem",
        "kinds",
        f"not served: {QUEUES}",
    ),
    "kinds that can not be seen": (of_cluster(definitions=None), "warning", "kinds", "can not be"),
    "a webhook in order": (of_webhook(), "ok", "webhooks", "1 in order"),
    "a webhook by URL": (of_webhook(service="", endpoints=None), "ok", "webhooks", "1 in order"),
    "a webhook nobody serves": (
        of_webhook(endpoints=0),
        "problem",
        "webhook guard/a.b.c",
        "nothing answers behind Service ns/svc, so what it guards is refused",
    ),
    "one that may be away": (
        of_webhook(endpoints=0, failure_policy="Ignore"),
        "warning",
        "webhook guard/a.b.c",
        "so it is passed over",
    ),
    "a webhook without CA": (of_webhook(ca_pem=b""), "problem", "webhook guard/a.b.c", "has no CA"),
    "a webhook with nonsense": (
        of_webhook(ca_pem=b"no PEM"),
        "problem",
        "webhook guard/a.b.c",
        "holds no certificate",
    ),
    "an expired CA": (
        of_webhook(ca_pem=_authority(-1)),
        "problem",
        "webhook guard/a.b.c",
        "its CA expired on",
    ),
    "a CA that expires": (
        of_webhook(ca_pem=_authority(3)),
        "warning",
        "webhook guard/a.b.c",
        "its CA expires on",
    ),
    "a CA that follows another": (
        of_webhook(ca_pem=_authority(-1) + _authority(900)),
        "ok",
        "webhooks",
        "1 in order",
    ),
    "a dead scheduler": (
        of_cluster(
            leaders=LEADERS | {"scheduler": Lease("kilonova-scheduler", "pod-9", NOW - 600, 15)}
        ),
        "problem",
        "scheduler",
        "pod-9 has not been heard of for 10m",
    ),
    "an operator that stepped down": (
        of_cluster(leaders=LEADERS | {"operator": Lease("kilonova-operator", "", NOW, 15)}),
        "warning",
        "operator",
        "none leads",
    ),
    "no scheduler": (
        of_cluster(leaders={"operator": LEADERS["operator"]}),
        "warning",
        "scheduler",
        "there is no Lease kilonova-scheduler in namespace kilonova-system",
    ),
    "a leader": (HEALTHY, "ok", "scheduler", "pod-1 leads, heard of 2s ago"),
    "a leader ahead of time": (
        of_cluster(leaders=LEADERS | {"operator": Lease("o", "pod-1", NOW + 4, 15)}),
        "ok",
        "operator",
        "pod-1 leads, heard of 0s ago",
    ),
    "leaders that can not be seen": (
        of_cluster(leaders=None),
        "warning",
        "operator, scheduler",
        "you may not list leases in namespace kilonova-system",
    ),
    "parts inside of up": (
        of_cluster(version=UP, rooms=ROOMS | {"operator": "starting"}, leaders={}),
        "ok",
        "operator",
        "is starting, inside of `kilonova up`",
    ),
    "a component that failed inside of up": (
        of_cluster(version=UP, rooms=ROOMS | {"scheduler": "degraded"}, leaders={}),
        "problem",
        "scheduler",
        "failed inside of `kilonova up`, and is being restarted",
    ),
    "a part that up is without": (
        of_cluster(version=UP, rooms=ROOMS | {"scheduler": "off"}, leaders={}),
        "warning",
        "scheduler",
        "left out of this `kilonova up` (--no-scheduler), and none has led from outside",
    ),
    "a part beside up": (
        of_cluster(version=UP, rooms=ROOMS | {"scheduler": "off"}),
        "ok",
        "scheduler",
        "pod-1 leads, heard of 2s ago",
    ),
    "an up that is elsewhere": (
        of_cluster(version=UP, leaders={}),
        "ok",
        "operator, scheduler",
        "`kilonova status` tells, on its machine",
    ),
    "silent nodes": (
        of_nodes(Lease(f"n{at}", "", NOW - 90 * (at > 0), 40) for at in range(6)),
        "warning",
        "nodes",
        "1 of 6 have a fresh Lease; not heard of for a minute: n1, n2, n3 and 2 more",
    ),
    "nodes without Leases": (
        of_cluster(nodes=tuple(f"n{at}" for at in range(1, 41))),
        "warning",
        "nodes",
        "1 of 40 have a fresh Lease; without any Lease: n2, n3, n4 and 36 more",
    ),
    "a Lease of a node that is gone": (
        of_cluster(node_leases=(*LEASES, Lease("gone", "gone", NOW - 9000, 40))),
        "ok",
        "nodes",
        "1 node, all with a fresh Lease",
    ),
    "a node ahead of time": (
        of_nodes([Lease("n1", "n1", NOW + 100, 40)]),
        "warning",
        "nodes",
        "the clocks are ahead on n1",
    ),
    "nodes by the clock of the server": (
        of_nodes([Lease("n1", "n1", NOW - 101, 40)], server_time=NOW - 100),
        "ok",
        "nodes",
        "1 node, all with a fresh Lease",
    ),
    "nodes that can not be seen": (
        of_cluster(nodes=None),
        "warning",
        "nodes",
        "can not be seen",
    ),
    "Leases that can not be seen": (
        of_cluster(node_leases=None),
        "warning",
        "nodes",
        "1 node, whose Leases can not be seen",
    ),
    "no nodes": (of_cluster(nodes=()), "warning", "nodes", "there are none"),
}


@pytest.mark.parametrize(("facts", "level", "what", "said"), CASES.values(), ids=CASES)
def test_a_fact_makes_a_finding(facts: Facts, level: str, what: str, said: str):
    about = [each for each in findings(facts) if each.what == what]
    assert any(each.level == level and said in each.found for each in about), about


@pytest.mark.parametrize("case", CASES)
def test_whatever_is_wrong_has_a_fix(case: str):
    found = findings(CASES[case][0])
    assert [each for each in found if each.level != "ok" and not each.fix] == []


def test_where_all_is_well_all_is_ok():
    assert {each.level for each in findings(HEALTHY)} == {"ok"}


def test_nothing_else_is_said_of_a_cluster_that_does_not_answer():
    away = replace(HEALTHY, cluster=Cluster("does not answer", "start it"))
    assert findings(away)[-1] == Finding("problem", "cluster", "does not answer", "start it")


@pytest.mark.parametrize(
    ("text", "version"), [("v1.36.3+x", (1, 36)), ("1.9", (1, 9)), ("", None), ("next", None)]
)
def test_versions_are_read(text: str, version: tuple[int, int] | None):
    assert version_of(text) == version
