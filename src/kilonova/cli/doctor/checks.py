"""Checks of `kilonova doctor`: facts in, findings out."""

import re
from collections.abc import Iterator

import msgspec

from kilonova.api.times import human_duration
from kilonova.cli.doctor.cluster_checks import (
    check_definitions,
    check_nodes,
    check_permissions,
)
from kilonova.cli.doctor.component_checks import check_components
from kilonova.cli.doctor.facts import (
    ClusterFacts,
    DataDirectoryFacts,
    Facts,
    MachineFacts,
    TargetFacts,
    Version,
)
from kilonova.cli.doctor.webhook_checks import check_webhooks
from kilonova.component.finding import Finding, ok, problem, warning
from kilonova.component.scheduler_names import EMBEDDED_VERSION_MARKER

MIN_PYTHON = (3, 11)
MIN_SERVER: Version = (1, 29)
"""The CEL rules of our CRDs use the quantity library, which older servers lack."""
TESTED_SERVER: Version = (1, 36)

_LOW_DISK_BYTES = 1 << 30
_FULL_DISK_BYTES = 100 << 20
_SKEW_WARNING_SECONDS, _SKEW_PROBLEM_SECONDS = 5.0, 60.0


def evaluate_facts(facts: Facts) -> list[Finding]:
    """All findings, in the order in which problems should be fixed."""
    return list(_iterate_findings(facts))


def _iterate_findings(facts: Facts) -> Iterator[Finding]:
    machine, cluster = facts.machine, facts.cluster
    yield _check_python(machine)
    yield _check_kubectl(machine, cluster.version if cluster else "")
    yield from _check_data_directory(machine.data_directory)
    yield _check_mounts(machine)
    yield from _check_target(facts.target)
    if cluster is None:
        return
    if cluster.problem:
        yield problem("cluster", cluster.problem, cluster.fix)
        return
    yield _check_server(cluster)
    yield _check_clock(cluster)
    yield _check_user(cluster)
    yield from check_permissions(cluster.denied)
    yield from check_definitions(facts.expected_definitions, cluster.definitions, facts.registered)
    yield from check_webhooks(cluster.webhooks, cluster.now)
    yield from check_components(cluster, facts.registered)
    yield from cluster.contributed
    yield check_nodes(cluster)


def parse_version(text: str) -> Version | None:
    """Major and minor of `v1.36.3+kilonova.0.1.0`."""
    found = re.match(r"v?(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def _check_python(machine: MachineFacts) -> Finding:
    text = ".".join(map(str, machine.python))
    if machine.python[:2] < MIN_PYTHON:
        return problem("Python", f"{text} is too old", "install Python 3.11 or newer")
    return ok("Python", text)


def _check_kubectl(machine: MachineFacts, server: str) -> Finding:
    found = machine.kubectl
    if found is None:
        return warning(
            "kubectl",
            "is not on the PATH; kilonova itself does not need it",
            "install it: https://kubernetes.io/docs/tasks/tools/",
        )
    ours, theirs = parse_version(found.version), parse_version(server)
    if ours is None:
        return warning(
            "kubectl", f"{found.path} reports no version", "try `kubectl version --client`"
        )
    if theirs is not None and (ours[0] != theirs[0] or abs(ours[1] - theirs[1]) > 1):
        return warning(
            "kubectl",
            f"{found.version}, more than one minor version from the server's {server}",
            f"install kubectl {theirs[0]}.{theirs[1]}",
        )
    return ok("kubectl", f"{found.version} at {found.path}")


def _check_data_directory(directory: DataDirectoryFacts) -> Iterator[Finding]:
    if directory.free < _FULL_DISK_BYTES:
        level = problem if directory.in_use or directory.exists else warning
        yield level(
            "disk", f"{directory.free >> 20} MiB free for {directory.path}", "free some disk space"
        )
    elif directory.free < _LOW_DISK_BYTES:
        yield warning(
            "disk", f"{directory.free >> 20} MiB free for {directory.path}", "free some disk space"
        )
    else:
        yield ok("disk", f"{directory.free >> 30} GiB free for {directory.path}")
    if directory.exists and directory.mode & 0o077:
        yield problem(
            "data directory",
            f"{directory.path}, which contains private keys, is accessible to other users "
            f"(mode {directory.mode:04o})",
            f"chmod 700 {directory.path}",
        )
    if directory.in_use:
        where = f" at {directory.url}" if directory.url else ""
        yield ok("data directory", f"a cluster is running in {directory.path}{where}")
    elif not directory.port_free:
        yield warning(
            "port",
            "7443, the default of `kilonova up`, is in use by another process",
            "start with `kilonova up --port 0`",
        )


def _check_mounts(machine: MachineFacts) -> Finding:
    if machine.mounts:
        return ok("process node", "pods on this machine can mount volumes")
    return warning(
        "process node", "only pods without volumes can run on this machine", machine.mounts_fix
    )


def _check_target(target: TargetFacts) -> Iterator[Finding]:
    absent = ", ".join(target.absent)
    if target.problem and not target.configured:
        yield _missing_target(target.problem, absent)
        return
    if absent:
        yield warning(
            "kubeconfig",
            f"KUBECONFIG names files that do not exist and are ignored: {absent}",
            "remove them from KUBECONFIG, or create them",
        )
    if target.problem:
        yield problem("kubeconfig", target.problem, "see --kubeconfig and --context")
    else:
        context = f"context {target.context}, " if target.context else ""
        yield ok("kubeconfig", f"{context}server {target.server}, namespace {target.namespace}")


def _missing_target(reason: str, absent: str) -> Finding:
    if absent:
        return problem(
            "kubeconfig",
            f"no cluster is configured: KUBECONFIG names files that do not exist: {absent}",
            "set KUBECONFIG to a file that exists, unset it, or use --kubeconfig",
        )
    return warning(
        "kubeconfig",
        f"no cluster is configured: {reason}",
        "start a cluster with `kilonova up --detach --wait`, or use --kubeconfig",
    )


def _check_server(cluster: ClusterFacts) -> Finding:
    version = parse_version(cluster.version)
    if version is None:
        return warning("server", f"unknown version {cluster.version!r}", "none")
    if version < MIN_SERVER:
        minimum = ".".join(map(str, MIN_SERVER))
        return problem(
            "server", f"{cluster.version} is too old", f"upgrade it to {minimum} or newer"
        )
    tested = ".".join(map(str, TESTED_SERVER))
    note = "" if version == TESTED_SERVER else f"; tested with {tested}"
    return ok("server", f"Kubernetes {cluster.version} answers{note}")


def _check_clock(cluster: ClusterFacts) -> Finding:
    if cluster.server_time is None and EMBEDDED_VERSION_MARKER in cluster.version:
        return ok("clock", "the server uses the clock of the machine that runs `kilonova up`")
    if cluster.server_time is None:
        return warning("clock", "the server does not report its time", "compare it by hand")
    skew = cluster.server_time - cluster.now
    if abs(skew) < _SKEW_WARNING_SECONDS:
        return ok("clock", "agrees with the server's")
    direction = "ahead of" if skew > 0 else "behind"
    text = f"the server's is {human_duration(abs(skew))} {direction} this machine's"
    level = problem if abs(skew) >= _SKEW_PROBLEM_SECONDS else warning
    return level("clock", text, "synchronise both by NTP")


def _check_user(cluster: ClusterFacts) -> Finding:
    if not cluster.user:
        return warning("user", "the cluster does not report it", "try `kubectl auth whoami`")
    return ok("user", cluster.user)


class DoctorReport(msgspec.Struct, frozen=True):
    """The output of `-o json`."""

    healthy: bool
    findings: list[Finding]
