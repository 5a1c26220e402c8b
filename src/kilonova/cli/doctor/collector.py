"""Collects the facts of `kilonova doctor` from this machine, the kubeconfig and the cluster."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.times import parse_time
from kilonova.cli.doctor.api_objects import (
    LEASES,
    NODES,
    SERVICE_LABEL,
    SLICES,
    WEBHOOKS,
    LeaseObject,
    WebhookObject,
)
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
from kilonova.cli.up.options import DEFAULT_PORT
from kilonova.component import find_components
from kilonova.component.command.cluster_selection import resolve_data_directory, resolve_kubeconfig
from kilonova.component.definitions import load_available_definitions
from kilonova.component.failure import CommandFailed
from kilonova.component.finding import ComponentCheck, Finding, warning
from kilonova.component.process.preflight import authenticated_user
from kilonova.component.process.process import NAMESPACE
from kilonova.component.references import load_reference
from kilonova.kube import (
    Client,
    ConfigError,
    ConnectionFailed,
    Forbidden,
    KubeError,
    NotFound,
    Request,
    Unauthorized,
    connect,
    load_client_config,
    unstructured_resource,
)
from kilonova.kube.client.config.kubeconfig import default_kubeconfig_files, read_kubeconfig
from kilonova.local.data_directory import DataDirectory, RunningProcess

T = TypeVar("T")

_DEFINITIONS = unstructured_resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
_REVIEWS = unstructured_resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False
)

_TIMEOUT_SECONDS = 15.0
_READ_COMMANDS = "reading (nodes, gangs, why, top …)"
PERMISSIONS = (
    *(Permission("list", "", each, _READ_COMMANDS) for each in ("nodes", "pods")),
    Permission("list", "scheduler.grove.io", "podgangs", _READ_COMMANDS),
    Permission("list", "grove.io", "podcliquesets", _READ_COMMANDS),
    Permission("list", "scheduling.kilonova.dev", "queues", _READ_COMMANDS),
    Permission("watch", "", "pods", "watching (-w, top)"),
    Permission("create", "apiextensions.k8s.io", "customresourcedefinitions", "`kilonova install`"),
    Permission("patch", "apiextensions.k8s.io", "customresourcedefinitions", "`kilonova install`"),
)


def collect_facts(kubeconfig: Path | None, context: str | None, data: Path | None) -> Facts:
    """Collect all facts; problems become facts, not exceptions."""
    directory = resolve_data_directory(data)
    machine = _collect_machine_facts(directory)
    target, file = _resolve_target(kubeconfig, context, data)
    cluster = None if target.problem else asyncio.run(_collect_cluster_facts(file, context))
    if cluster is not None:
        files = default_kubeconfig_files() if file is None else [file]
        candidates = [directory, *(each.parent for each in files)]
        running = _find_running_process(target.server, candidates)
        if running is not None:
            cluster = replace(cluster, components=running.components, problems=running.problems)
    definitions = tuple(load_available_definitions(find_components()))
    return Facts(machine, target, cluster, definitions)


def _find_running_process(server: str, candidates: Sequence[Path]) -> RunningProcess | None:
    """The process of the embedded cluster at `server`, if one of these is its directory."""
    for directory in map(DataDirectory, candidates):
        with suppress(OSError):  # belongs to another user
            running = directory.read_running_record() if directory.is_locked() else None
            if running is not None and running.url == server:
                return running
    return None


def _collect_machine_facts(data: Path) -> MachineFacts:
    mounts, fix = _probe_mounts()
    return MachineFacts(
        sys.version_info[:3], _find_kubectl(), _inspect_data_directory(data), mounts, fix
    )


def _find_kubectl() -> KubectlFacts | None:
    path = shutil.which("kubectl")
    if path is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 (the user's own kubectl)
            [path, "version", "--client", "-o", "json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=True,
        )
        output = msgspec.json.decode(done.stdout, type=JsonObject)
        return KubectlFacts(path, str(output["clientVersion"]["gitVersion"]))
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError, KeyError):
        return KubectlFacts(path)


def _inspect_data_directory(data: Path) -> DataDirectoryFacts:
    existing = next(each for each in (data, *data.parents) if each.exists())
    directory = DataDirectory(data)
    in_use = directory.is_locked() if os.access(data, os.X_OK) else False
    running = directory.read_running_record() if in_use else None
    return DataDirectoryFacts(
        data,
        exists=data.exists(),
        mode=existing.stat().st_mode & 0o777 if existing == data else 0o700,
        free=shutil.disk_usage(existing).free,
        in_use=in_use,
        url=running.url if running else "",
        port_free=in_use or _can_listen(DEFAULT_PORT),
    )


def _can_listen(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _probe_mounts() -> tuple[bool, str]:
    if sys.platform != "linux":
        return False, "the process node requires Linux: start with --no-process-node"
    from kilonova.local.processnode.kubelet.machine.capabilities import explain_missing_mounts
    from kilonova.local.processnode.shim.isolation.namespaces import detect_namespaces

    with tempfile.TemporaryDirectory() as scratch:
        return detect_namespaces(scratch).is_allowed, explain_missing_mounts()


def _resolve_target(
    kubeconfig: Path | None, context: str | None, data: Path | None
) -> tuple[TargetFacts, Path | None]:
    """The target cluster and its kubeconfig; None is the one that kubectl finds."""
    files = [kubeconfig] if kubeconfig is not None else default_kubeconfig_files()
    uses_variable = kubeconfig is None and data is None and bool(os.environ.get("KUBECONFIG"))
    absent = tuple(str(each) for each in files if uses_variable and not each.exists())
    try:
        file = resolve_kubeconfig(kubeconfig, context, data)
        access = load_client_config(file, context)
        config = read_kubeconfig([file] if file is not None else files)
    except CommandFailed as error:
        return TargetFacts(problem=str(error), configured=False), None
    except ConfigError as error:
        is_named = kubeconfig is not None or (context is not None and not absent)
        configured = is_named or any(map(Path.exists, files))
        return TargetFacts(problem=str(error), configured=configured, absent=absent), None
    name = context or config.current_context
    return TargetFacts(access.endpoint.server, name, access.namespace, absent=absent), file


async def _collect_cluster_facts(kubeconfig: Path | None, context: str | None) -> ClusterFacts:
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS), connect(kubeconfig, context) as client:
            return await _query_cluster(client)
    except ConnectionFailed as error:
        fix = "start it, or choose another with --context; check VPN and proxy settings"
        return ClusterFacts(f"does not answer: {error}", fix)
    except TimeoutError:
        return ClusterFacts(
            f"does not answer within {_TIMEOUT_SECONDS:.0f} s",
            "check that it runs; check the network",
        )
    except Unauthorized as error:
        return ClusterFacts(f"authentication failed: {error.message}", "log in again")
    except KubeError as error:
        return ClusterFacts(f"request failed: {error}", "see the message")


async def _query_cluster(client: Client) -> ClusterFacts:
    before = time.time()
    reply = await client.send(Request("GET", "/version"))
    now = (before + time.time()) / 2
    date = reply.headers.get("date")
    services = await _unless_forbidden(lambda: _count_ready_endpoints(client))
    leases = await _unless_forbidden(lambda: _list_leases(client, NAMESPACE))
    components = {
        each.process.lease: each.name
        for each in find_components()
        if each.process is not None and each.process.lease
    }
    return ClusterFacts(
        version=str(msgspec.json.decode(reply.body, type=JsonObject)["gitVersion"]),
        # The header has whole seconds: on average, half a second is cut off.
        server_time=parsedate_to_datetime(date).timestamp() + 0.5 if date else None,
        now=now,
        user=await _unless_forbidden(lambda: authenticated_user(client)) or "",
        denied=await _find_denied_permissions(client),
        definitions=await _unless_forbidden(lambda: _list_definitions(client)),
        webhooks=await _unless_forbidden(lambda: _list_webhooks(client, services)),
        leaders=None
        if leases is None
        else {components[each.name]: each for each in leases if each.name in components},
        nodes=await _unless_forbidden(lambda: _list_node_names(client)),
        node_leases=await _unless_forbidden(lambda: _list_leases(client, "kube-node-lease")),
        contributed=tuple(await _run_component_checks(client)),
    )


async def _run_component_checks(client: Client) -> list[Finding]:
    """The findings of the components' own checks; a check that fails is a finding itself."""
    found: list[Finding] = []
    for each in find_components():
        if not each.checks:
            continue
        try:
            check: ComponentCheck = load_reference(each.checks)
            found += await check(client)
        except Exception as error:
            found.append(
                warning(each.name, f"its check failed: {error}", "see the message, or report it")
            )
    return found


async def _unless_forbidden(request: Callable[[], Awaitable[T]]) -> T | None:
    try:
        return await request()
    except (Forbidden, NotFound):
        return None


async def _find_denied_permissions(client: Client) -> tuple[Permission, ...]:
    answers = await asyncio.gather(*(_is_allowed(client, each) for each in PERMISSIONS))
    return tuple(each for each, allowed in zip(PERMISSIONS, answers, strict=True) if not allowed)


async def _is_allowed(client: Client, permission: Permission) -> bool:
    attributes = {
        "verb": permission.verb,
        "group": permission.group,
        "resource": permission.resource,
    }
    review = await client.create(_REVIEWS, {"spec": {"resourceAttributes": attributes}})
    return bool(review["status"]["allowed"])


async def _list_definitions(client: Client) -> dict[str, JsonObject]:
    listing = await client.list(_DEFINITIONS)
    return {each["metadata"]["name"]: each for each in listing.items}


async def _list_node_names(client: Client) -> tuple[str, ...]:
    return tuple(each.metadata.name for each in (await client.list(NODES)).items)


async def _list_leases(client: Client, namespace: str) -> tuple[LeaseFacts, ...]:
    return tuple(_to_lease_facts(each) for each in (await client.list(LEASES, namespace)).items)


def _to_lease_facts(lease: LeaseObject) -> LeaseFacts:
    spec = lease.spec
    renewed = parse_time(spec.renew_time).timestamp() if spec.renew_time else None
    return LeaseFacts(
        lease.metadata.name,
        spec.holder_identity or "",
        renewed,
        float(spec.lease_duration_seconds or 0),
    )


async def _count_ready_endpoints(client: Client) -> dict[str, int]:
    """Ready endpoints by namespace/name of the Service."""
    counts: dict[str, int] = {}
    for each in (await client.list(SLICES)).items:
        service = f"{each.metadata.namespace}/{each.metadata.labels.get(SERVICE_LABEL, '')}"
        ready = sum(endpoint.conditions.ready is not False for endpoint in each.endpoints or ())
        counts[service] = counts.get(service, 0) + ready
    return counts


async def _list_webhooks(
    client: Client, services: dict[str, int] | None
) -> tuple[WebhookFacts, ...]:
    listings = [await client.list(resource) for resource in WEBHOOKS]
    return tuple(
        _to_webhook_facts(each.metadata.name, webhook, services)
        for listing in listings
        for each in listing.items
        for webhook in each.webhooks or ()
    )


def _to_webhook_facts(
    configuration: str, webhook: WebhookObject, services: dict[str, int] | None
) -> WebhookFacts:
    reference = webhook.client_config.service
    service = f"{reference.namespace}/{reference.name}" if reference else ""
    return WebhookFacts(
        configuration,
        webhook.name,
        webhook.failure_policy,
        webhook.client_config.ca_bundle,
        service,
        services.get(service, 0) if services is not None and service else None,
    )
