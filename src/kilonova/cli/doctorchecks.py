"""What `kilonova doctor` makes of its facts: one finding for each, with what to do about it."""

import re
from collections.abc import Iterator

import msgspec

from kilonova.api.times import human_duration
from kilonova.cli.doctorcluster import (
    definition_findings,
    lease_findings,
    node_finding,
    right_findings,
)
from kilonova.cli.doctorfacts import Cluster, Facts, Folder, Machine, Target, Version
from kilonova.cli.doctorfinding import Finding, ok, problem, warning
from kilonova.cli.doctorwebhooks import webhook_findings
from kilonova.cli.served import EMBEDDED

OLDEST_PYTHON = (3, 11)
OLDEST_SERVER: Version = (1, 29)
"""The rules of our kinds compare quantities, which older servers can not."""
TESTED_SERVER: Version = (1, 36)

_LITTLE_DISK = 1 << 30
_NO_DISK = 100 << 20
_SKEW_NOTED, _SKEW_HARMFUL = 5.0, 60.0


def findings(facts: Facts) -> list[Finding]:
    """Everything that was looked at, in the order in which it would be repaired."""
    return list(_findings(facts))


def _findings(facts: Facts) -> Iterator[Finding]:
    machine, cluster = facts.machine, facts.cluster
    yield _python(machine)
    yield _kubectl(machine, cluster.version if cluster else "")
    yield from _folder(machine.folder)
    yield _mounts(machine)
    yield from _target(facts.target)
    if cluster is None:
        return
    if cluster.problem:
        yield problem("cluster", cluster.problem, cluster.fix)
        return
    yield _server(cluster)
    yield _clock(cluster)
    yield _user(cluster)
    yield from right_findings(cluster.denied)
    yield from definition_findings(facts.wanted, cluster.definitions)
    yield from webhook_findings(cluster.webhooks, cluster.now)
    yield from lease_findings(cluster)
    yield node_finding(cluster)


def version_of(text: str) -> Version | None:
    """Major and minor of `v1.36.3+kilonova.0.1.0`."""
    found = re.match(r"v?(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def _python(machine: Machine) -> Finding:
    text = ".".join(map(str, machine.python))
    if machine.python[:2] < OLDEST_PYTHON:
        return problem("Python", f"{text} is too old", "install Python 3.11 or newer")
    return ok("Python", text)


def _kubectl(machine: Machine, server: str) -> Finding:
    found = machine.kubectl
    if found is None:
        return warning(
            "kubectl",
            "is not on the PATH; kilonova itself does without",
            "install it: https://kubernetes.io/docs/tasks/tools/",
        )
    ours, theirs = version_of(found.version), version_of(server)
    if ours is None:
        return warning(
            "kubectl", f"{found.path} does not tell its version", "try `kubectl version --client`"
        )
    if theirs is not None and (ours[0] != theirs[0] or abs(ours[1] - theirs[1]) > 1):
        return warning(
            "kubectl",
            f"{found.version}, more than one minor version from the server's {server}",
            f"install kubectl {theirs[0]}.{theirs[1]}",
        )
    return ok("kubectl", f"{found.version} at {found.path}")


def _folder(folder: Folder) -> Iterator[Finding]:
    if folder.free < _NO_DISK:
        level = problem if folder.taken or folder.exists else warning
        yield level("disk", f"{folder.free >> 20} MiB free for {folder.path}", "make room on it")
    elif folder.free < _LITTLE_DISK:
        yield warning("disk", f"{folder.free >> 20} MiB free for {folder.path}", "make room on it")
    else:
        yield ok("disk", f"{folder.free >> 30} GiB free for {folder.path}")
    if folder.exists and folder.mode & 0o077:
        yield problem(
            "folder",
            f"others may look into {folder.path} (mode {folder.mode:04o}), which holds keys",
            f"chmod 700 {folder.path}",
        )
    if folder.taken:
        where = f" at {folder.url}" if folder.url else ""
        yield ok("folder", f"a cluster runs on {folder.path}{where}")
    elif not folder.port_free:
        yield warning(
            "port",
            "7443, the usual one of `kilonova up`, is taken by another process",
            "start with `kilonova up --port 0`",
        )


def _mounts(machine: Machine) -> Finding:
    if machine.mounts:
        return ok("process node", "pods on this machine may have volumes")
    return warning(
        "process node", "only pods without volumes run on this machine", machine.mounts_fix
    )


def _target(target: Target) -> Iterator[Finding]:
    absent = ", ".join(target.absent)
    if target.problem and not target.configured:
        yield _no_target(target.problem, absent)
        return
    if absent:
        yield warning(
            "kubeconfig",
            f"KUBECONFIG names what is not there, and counts as empty: {absent}",
            "take it out of KUBECONFIG, or put it there",
        )
    if target.problem:
        yield problem("kubeconfig", target.problem, "see --kubeconfig and --context")
    else:
        named = f"context {target.context} " if target.context else ""
        yield ok("kubeconfig", f"{named}leads to {target.server}, namespace {target.namespace}")


def _no_target(why: str, absent: str) -> Finding:
    if absent:
        return problem(
            "kubeconfig",
            f"no cluster is meant: KUBECONFIG names what is not there: {absent}",
            "let KUBECONFIG name a file that is, unset it, or name one with --kubeconfig",
        )
    return warning(
        "kubeconfig",
        f"no cluster is meant: {why}",
        "get a cluster with `kilonova up --detach --wait`, or name one with --kubeconfig",
    )


def _server(cluster: Cluster) -> Finding:
    version = version_of(cluster.version)
    if version is None:
        return warning("server", f"has a version that says nothing: {cluster.version!r}", "none")
    if version < OLDEST_SERVER:
        least = ".".join(map(str, OLDEST_SERVER))
        return problem("server", f"{cluster.version} is too old", f"upgrade it to {least} or newer")
    note = "" if version == TESTED_SERVER else f"; tested is {'.'.join(map(str, TESTED_SERVER))}"
    return ok("server", f"Kubernetes {cluster.version} answers{note}")


def _clock(cluster: Cluster) -> Finding:
    if cluster.server_time is None and EMBEDDED in cluster.version:
        return ok("clock", "that of the machine which runs `kilonova up`")
    if cluster.server_time is None:
        return warning("clock", "the server does not tell its time", "compare it by hand")
    skew = cluster.server_time - cluster.now
    if abs(skew) < _SKEW_NOTED:
        return ok("clock", "agrees with the server's")
    way = "ahead of" if skew > 0 else "behind"
    text = f"the server's is {human_duration(abs(skew))} {way} this machine's"
    level = problem if abs(skew) >= _SKEW_HARMFUL else warning
    return level("clock", text, "let both follow a time server (NTP)")


def _user(cluster: Cluster) -> Finding:
    if not cluster.user:
        return warning("user", "the cluster does not tell who you are", "try `kubectl auth whoami`")
    return ok("user", cluster.user)


class Report(msgspec.Struct, frozen=True):
    """What `-o json` prints."""

    healthy: bool
    findings: list[Finding]
