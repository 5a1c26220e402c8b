"""What `kilonova doctor` asks: this machine, the kubeconfig, the cluster. Judges nothing."""

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

from kilonova.api.crds import definitions
from kilonova.api.json import JsonObject
from kilonova.api.times import parse_time
from kilonova.cli.clusters import cluster_meant, folder_meant
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
from kilonova.cli.doctorobjects import (
    LEASES,
    NODES,
    SERVICE_LABEL,
    SLICES,
    WEBHOOKS,
    LeaseObject,
    WebhookObject,
)
from kilonova.cli.extenderprocess import NAME as EXTENDER
from kilonova.cli.failure import CommandFailed
from kilonova.cli.operatoroptions import NAME as OPERATOR
from kilonova.cli.options import PORT
from kilonova.cli.preflight import user_name
from kilonova.cli.process import NAMESPACE
from kilonova.cli.schedulerprocess import NAME as SCHEDULER
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
    find_access,
    plain,
)
from kilonova.kube.kubeconfig import kubeconfig_files, read_kubeconfig
from kilonova.local.folder import Folder as DataFolder

T = TypeVar("T")

_DEFINITIONS = plain(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
_REVIEWS = plain(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False
)

_PATIENCE = 15.0
_LOOKING = "looking (nodes, gangs, why, top …)"
RIGHTS = (
    *(Right("list", "", each, _LOOKING) for each in ("nodes", "pods")),
    Right("list", "scheduler.grove.io", "podgangs", _LOOKING),
    Right("list", "grove.io", "podcliquesets", _LOOKING),
    Right("list", "scheduling.kilonova.dev", "queues", _LOOKING),
    Right("watch", "", "pods", "watching (-w, top)"),
    Right("create", "apiextensions.k8s.io", "customresourcedefinitions", "`kilonova install`"),
    Right("patch", "apiextensions.k8s.io", "customresourcedefinitions", "`kilonova install`"),
)


def gather(kubeconfig: Path | None, context: str | None, data: Path | None) -> Facts:
    """Find out everything that can be found out; nothing here fails because something is wrong."""
    folder = folder_meant(data)
    machine = _machine(folder)
    target, file = _target(kubeconfig, context, data)
    cluster = None if target.problem else asyncio.run(_cluster(file, context))
    if cluster is not None:
        files = kubeconfig_files() if file is None else [file]
        rooms = _rooms(target.server, [folder, *(each.parent for each in files)])
        cluster = replace(cluster, rooms=rooms)
    return Facts(machine, target, cluster, tuple(definitions()))


def _rooms(server: str, folders: Sequence[Path]) -> dict[str, str] | None:
    """What the process behind a server says of its parts, if it runs on one of these folders."""
    for folder in map(DataFolder, folders):
        with suppress(OSError):  # of another user
            running = folder.running() if folder.is_taken() else None
            if running is not None and running.url == server:
                return running.rooms
    return None


def _machine(data: Path) -> Machine:
    mounts, fix = _mounts()
    return Machine(sys.version_info[:3], _kubectl(), _folder(data), mounts, fix)


def _kubectl() -> Kubectl | None:
    path = shutil.which("kubectl")
    if path is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 (the user's own kubectl)
            [path, "version", "--client", "-o", "json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=True,
        )
        said = msgspec.json.decode(done.stdout, type=JsonObject)
        return Kubectl(path, str(said["clientVersion"]["gitVersion"]))
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError, KeyError):
        return Kubectl(path)


def _folder(data: Path) -> Folder:
    there = next(each for each in (data, *data.parents) if each.exists())
    folder = DataFolder(data)
    taken = folder.is_taken() if os.access(data, os.X_OK) else False
    running = folder.running() if taken else None
    return Folder(
        data,
        exists=data.exists(),
        mode=there.stat().st_mode & 0o777 if there == data else 0o700,
        free=shutil.disk_usage(there).free,
        taken=taken,
        url=running.url if running else "",
        port_free=taken or _can_listen(PORT),
    )


def _can_listen(port: int) -> bool:
    with socket.socket() as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            door.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _mounts() -> tuple[bool, str]:
    if sys.platform != "linux":
        return False, "the process node wants Linux: start with --no-process-node"
    from kilonova.local.nodes.process.keeper.namespaces import probe
    from kilonova.local.nodes.process.kubelet.abilities import how_to_allow_mounts

    with tempfile.TemporaryDirectory() as scratch:
        return probe(scratch).allowed, how_to_allow_mounts()


def _target(
    kubeconfig: Path | None, context: str | None, data: Path | None
) -> tuple[Target, Path | None]:
    """What is meant, and the file that says so; None is as kubectl finds it."""
    files = [kubeconfig] if kubeconfig is not None else kubeconfig_files()
    counts = kubeconfig is None and data is None and bool(os.environ.get("KUBECONFIG"))
    absent = tuple(str(each) for each in files if counts and not each.exists())
    try:
        file = cluster_meant(kubeconfig, context, data)
        access = find_access(file, context)
        config = read_kubeconfig([file] if file is not None else files)
    except CommandFailed as error:
        return Target(problem=str(error), configured=False), None
    except ConfigError as error:
        named = kubeconfig is not None or (context is not None and not absent)
        configured = named or any(map(Path.exists, files))
        return Target(problem=str(error), configured=configured, absent=absent), None
    name = context or config.current_context
    return Target(access.endpoint.server, name, access.namespace, absent=absent), file


async def _cluster(kubeconfig: Path | None, context: str | None) -> Cluster:
    try:
        async with asyncio.timeout(_PATIENCE), connect(kubeconfig, context) as client:
            return await _ask(client)
    except ConnectionFailed as error:
        fix = "start it, or choose another with --context; is a VPN or proxy in the way?"
        return Cluster(f"does not answer: {error}", fix)
    except TimeoutError:
        return Cluster(f"does not answer within {_PATIENCE:.0f} s", "is it up, and near enough?")
    except Unauthorized as error:
        return Cluster(f"does not know who you are: {error.message}", "log in again")
    except KubeError as error:
        return Cluster(f"refuses: {error}", "see the message")


async def _ask(client: Client) -> Cluster:
    before = time.time()
    reply = await client.send(Request("GET", "/version"))
    now = (before + time.time()) / 2
    told = reply.headers.get("date")
    services = await _unless_refused(lambda: _ready_addresses(client))
    leases = await _unless_refused(lambda: _leases(client, NAMESPACE))
    named = {OPERATOR: "operator", SCHEDULER: "scheduler", EXTENDER: "extender"}
    return Cluster(
        version=str(msgspec.json.decode(reply.body, type=JsonObject)["gitVersion"]),
        # It tells whole seconds: half of one is what is missing on average.
        server_time=parsedate_to_datetime(told).timestamp() + 0.5 if told else None,
        now=now,
        user=await _unless_refused(lambda: user_name(client)) or "",
        denied=await _denied(client),
        definitions=await _unless_refused(lambda: _definitions(client)),
        webhooks=await _unless_refused(lambda: _webhooks(client, services)),
        leaders=None
        if leases is None
        else {named[each.name]: each for each in leases if each.name in named},
        nodes=await _unless_refused(lambda: _nodes(client)),
        node_leases=await _unless_refused(lambda: _leases(client, "kube-node-lease")),
    )


async def _unless_refused(ask: Callable[[], Awaitable[T]]) -> T | None:
    try:
        return await ask()
    except (Forbidden, NotFound):
        return None


async def _denied(client: Client) -> tuple[Right, ...]:
    answers = await asyncio.gather(*(_may(client, right) for right in RIGHTS))
    return tuple(right for right, may in zip(RIGHTS, answers, strict=True) if not may)


async def _may(client: Client, right: Right) -> bool:
    asked = {"verb": right.verb, "group": right.group, "resource": right.resource}
    review = await client.create(_REVIEWS, {"spec": {"resourceAttributes": asked}})
    return bool(review["status"]["allowed"])


async def _definitions(client: Client) -> dict[str, JsonObject]:
    listing = await client.list(_DEFINITIONS)
    return {each["metadata"]["name"]: each for each in listing.items}


async def _nodes(client: Client) -> tuple[str, ...]:
    return tuple(each.metadata.name for each in (await client.list(NODES)).items)


async def _leases(client: Client, namespace: str) -> tuple[Lease, ...]:
    return tuple(_lease(each) for each in (await client.list(LEASES, namespace)).items)


def _lease(found: LeaseObject) -> Lease:
    spec = found.spec
    renewed = parse_time(spec.renew_time).timestamp() if spec.renew_time else None
    return Lease(
        found.metadata.name,
        spec.holder_identity or "",
        renewed,
        float(spec.lease_duration_seconds or 0),
    )


async def _ready_addresses(client: Client) -> dict[str, int]:
    """How many, by namespace/name of the Service."""
    found: dict[str, int] = {}
    for each in (await client.list(SLICES)).items:
        service = f"{each.metadata.namespace}/{each.metadata.labels.get(SERVICE_LABEL, '')}"
        ready = sum(one.conditions.ready is not False for one in each.endpoints or ())
        found[service] = found.get(service, 0) + ready
    return found


async def _webhooks(client: Client, services: dict[str, int] | None) -> tuple[Webhook, ...]:
    listings = [await client.list(resource) for resource in WEBHOOKS]
    return tuple(
        _webhook(each.metadata.name, webhook, services)
        for listing in listings
        for each in listing.items
        for webhook in each.webhooks or ()
    )


def _webhook(
    configuration: str, webhook: WebhookObject, services: dict[str, int] | None
) -> Webhook:
    at = webhook.client_config.service
    service = f"{at.namespace}/{at.name}" if at else ""
    return Webhook(
        configuration,
        webhook.name,
        webhook.failure_policy,
        webhook.client_config.ca_bundle,
        service,
        services.get(service, 0) if services is not None and service else None,
    )
