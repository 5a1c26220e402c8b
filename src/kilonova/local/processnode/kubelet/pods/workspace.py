"""A pod's resources on this machine, and the container specs built from them."""

import os
import shutil
from pathlib import Path

import msgspec

from kilonova.api.gpu.annotations import (
    DeviceAssignment,
    InvalidAnnotation,
    format_devices,
    parse_devices,
)
from kilonova.local.processnode.cri.api import Capabilities, ContainerSpec, Limits, Mount
from kilonova.local.processnode.kubelet.containers.runs import build_run_id
from kilonova.local.processnode.kubelet.context import HOST_ADDRESS, KubeletContext, log_path
from kilonova.local.processnode.kubelet.environment.downward_api import FieldContext, parse_amount
from kilonova.local.processnode.kubelet.environment.variables import (
    ContainerConfigError,
    EnvironmentInputs,
    build_environment,
    expand_command_line,
)
from kilonova.local.processnode.kubelet.machine.capabilities import (
    find_missing_features,
    select_possible_mounts,
)
from kilonova.local.processnode.kubelet.machine.devices import build_request
from kilonova.local.processnode.kubelet.machine.program_folders import (
    expose_folders,
    uncover_folders,
)
from kilonova.local.processnode.kubelet.objects import Container, Pod
from kilonova.local.processnode.kubelet.pods import hosts_file
from kilonova.local.processnode.kubelet.pods.programs import write_programs
from kilonova.local.processnode.kubelet.volumes.manager import PodVolumeManager
from kilonova.local.processnode.kubelet.volumes.projection import VolumeInputs, find_references
from kilonova.local.processnode.kubelet.volumes.service_account_tokens import ServiceAccountTokens
from kilonova.local.processnode.kubelet.volumes.watched_objects import NamespacedObjects
from kilonova.local.processnode.services import build_dns_environment, build_service_environment

_MAX_HOSTNAME_LENGTH = 63
_GPUS_FILE = "devices.json"
_ADDRESS_FILE = "address"
_NON_ROOT_HOME = "/home/pod"
_PROGRAMS = ".programs"
"""In the home directory of a pod, by container."""


class MissingCommand(Exception):
    """The container relies on the command of an image."""

    def __init__(self, container: Container) -> None:
        super().__init__(
            f"container {container.name} has no command, and this node runs processes and pulls no "
            f"images: set a command, define how {container.image} is run here (kilonova up "
            "--images FILE), or select a simulated node"
        )


class PodWorkspace:
    """A pod's resources on this machine: its directory, volumes, address and GPUs."""

    def __init__(self, context: KubeletContext, uid: str) -> None:
        self._context = context
        self._uid = uid
        self._capabilities: Capabilities | None = None
        self.directory = context.pod_directory(uid)
        self.address = ""
        self._tokens = ServiceAccountTokens(context.client, context.clock.now)
        self.volumes = PodVolumeManager(
            self.directory,
            context.allowed_paths,
            self._tokens,
            context.persistent_volumes,
            hidden=context.pods_directory.parent,
        )

    def recover(self, pod: Pod) -> None:
        """Restore the address and GPUs that the pod had before a restart of the kubelet."""
        address = self._read_address() or pod.status.pod_ip
        if pod.spec.host_network:
            self.address = HOST_ADDRESS
        elif address and self._context.addresses.reserve(self._uid, address):
            self.address = address
        try:
            allocations = msgspec.json.decode(
                (self.directory / _GPUS_FILE).read_bytes(), type=dict[str, str]
            )
        except FileNotFoundError:
            return
        for container, text in allocations.items():
            assignments = parse_devices(text)
            if not isinstance(assignments, InvalidAnnotation):
                self._context.devices.restore(self._uid, container, assignments)

    async def prepare(self, pod: Pod) -> None:
        """Allocate an address and set up or refresh all volumes; may raise `VolumeSetUpError`.

        Without a free address `self.address` stays empty.
        """
        self._capabilities = await self._context.capabilities.get()
        if not self.address:
            if pod.spec.host_network:
                self.address = HOST_ADDRESS
            else:
                self.address = self._context.addresses.allocate(self._uid) or ""
        self._scratch.mkdir(parents=True, exist_ok=True)
        self._save_address()
        await self.volumes.set_up(pod, self._volume_inputs(pod))

    def build_container_spec(self, pod: Pod, container: Container, attempt: int) -> ContainerSpec:
        """The next run of a container; may raise `ContainerConfigError` or `MissingCommand`."""
        command = self._context.images.resolve(container.image, container.command, container.args)
        if command is None:
            raise MissingCommand(container)
        abilities = self._prepared_capabilities
        private = abilities.network and not pod.spec.host_network
        user, group = _resolve_user(pod, container)
        devices = self._allocate_gpus(pod, container)
        hostname = _resolve_hostname(pod)
        home, home_mounts = str(self._scratch), tuple[Mount, ...]()
        hidden = (str(self._context.pods_directory.parent),)
        if abilities.mounts:
            home_mounts = (Mount(self._scratch, home),)  # the data directory is hidden
        if user not in (None, os.geteuid()):
            # Other users cannot traverse the data directory.
            home = _NON_ROOT_HOME if abilities.mounts else "/"
            home_mounts = (Mount(self._scratch, home),) if abilities.mounts else ()
        if user not in (None, os.geteuid()) and abilities.mounts:
            exposed, closed = expose_folders(command.folders, user, group)
            home_mounts, hidden = (*home_mounts, *exposed), (*hidden, *closed)
        search_path = command.get_search_path(self._context.search_path)
        if command.install and shutil.which(command.line[0], path=search_path) is None:
            raise ContainerConfigError(f"it runs {command.explain_missing()}")
        programs = self._scratch / _PROGRAMS / container.name
        if home != "/" and write_programs(programs, command.programs, search_path):
            search_path = f"{home}/{_PROGRAMS}/{container.name}:{search_path}"
        given = EnvironmentInputs(
            NamespacedObjects(self._context.object_cache, pod.metadata.namespace),
            self._field_context(),
            build_service_environment(
                self._context.services.objects(),
                pod.metadata.namespace,
                links=pod.spec.enable_service_links,
                via_loopback=not private,
            ),
            {
                **command.env,
                "PATH": search_path,
                "HOME": home,
                "HOSTNAME": hostname,
                **(build_dns_environment(pod.metadata.namespace) if private else {}),
                **self._context.devices.build_environment(devices),
            },
            self.volumes.read_file,
        )
        variables = build_environment(pod, container, given)
        if user is not None:
            os.chown(self._scratch, user, -1 if group is None else group)
        volume_mounts = select_possible_mounts(
            container, self.volumes.build_mounts(container, variables), abilities
        )
        if abilities.mounts:
            seen = {each.target for each in (*home_mounts, *volume_mounts)}
            uncovered = uncover_folders(command.folders, [each.target for each in volume_mounts])
            home_mounts += tuple(each for each in uncovered if each.target not in seen)
        return ContainerSpec(
            id=build_run_id(pod.uid, container.name, attempt),
            pod_uid=pod.uid,
            name=container.name,
            command=expand_command_line(command.line, variables),
            env=variables,
            folder=container.working_dir or command.working_dir or home,
            log=log_path(self.directory, container.name, attempt),
            # Without an address the process uses the machine's network.
            address="" if pod.spec.host_network else self.address,
            mounts=(
                *home_mounts,
                *volume_mounts,
                *(self._termination_mounts(container, attempt) if abilities.mounts else ()),
                *(self._hosts_mounts(pod, container, hostname) if abilities.mounts else ()),
            ),
            hidden=hidden,
            privileged=container.security_context.privileged,
            hostname=hostname,
            limits=_build_limits(container),
            user=user,
            group=group,
            tty=container.tty,
            stdin=container.stdin,
            stdin_once=container.stdin_once,
        )

    def find_missing_features(self, container: Container) -> list[tuple[str, str]]:
        """Features that it runs without on this machine: reasons and messages of events."""
        return find_missing_features(container, self._prepared_capabilities)

    def read_termination_file(self, container: str, attempt: int, max_bytes: int) -> bytes:
        """The end of a run's termination message file."""
        try:
            with self._termination_file(container, attempt).open("rb") as file:
                file.seek(-min(max_bytes, file.seek(0, os.SEEK_END)), os.SEEK_END)
                return file.read(max_bytes)
        except FileNotFoundError:
            return b""

    def remove_run_files(self, container: str, attempt: int) -> None:
        """Remove the files of a run that is no longer reported."""
        self._termination_file(container, attempt).unlink(missing_ok=True)
        log = log_path(self.directory, container, attempt)
        for path in log.parent.glob(f"{log.name}*"):
            path.unlink(missing_ok=True)

    def release_gpus(self, container: str) -> None:
        """Release the GPUs of a container that will not run again."""
        if container in self._context.devices.allocations_of(self._uid):
            self._context.devices.release(self._uid, container)
            self._save_gpus()

    def release_resources(self) -> None:
        """The pod has ended: release everything but its logs."""
        self._context.addresses.release(self._uid)
        self._context.devices.release(self._uid)
        self._context.object_cache.unregister_pod(self._uid)
        self.volumes.remove()
        for name in (_GPUS_FILE, _ADDRESS_FILE, "hosts", "scratch", "messages"):
            path = self.directory / name
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the pod's directory and release its resources."""
        self.release_resources()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def _prepared_capabilities(self) -> Capabilities:
        assert self._capabilities is not None, "container started before the workspace was prepared"
        return self._capabilities

    @property
    def _scratch(self) -> Path:
        return self.directory / "scratch"

    def _field_context(self) -> FieldContext:
        return FieldContext(self.address, HOST_ADDRESS, self._context.allocatable)

    def _volume_inputs(self, pod: Pod) -> VolumeInputs:
        sources = NamespacedObjects(self._context.object_cache, pod.metadata.namespace)
        return VolumeInputs(sources, self._field_context(), self._tokens.get_token)

    def _allocate_gpus(self, pod: Pod, container: Container) -> tuple[DeviceAssignment, ...]:
        request = build_request(pod, container)
        devices = self._context.devices.allocate(self._uid, container.name, request)
        if devices:
            self._save_gpus()
        return devices

    def _save_gpus(self) -> None:
        """Saved before use: a restarted kubelet must know them."""
        held = self._context.devices.allocations_of(self._uid)
        allocations = {container: format_devices(each) for container, each in held.items()}
        partial = self.directory / f"{_GPUS_FILE}.new"
        partial.write_bytes(msgspec.json.encode(allocations))
        partial.rename(self.directory / _GPUS_FILE)

    def _read_address(self) -> str:
        try:
            return (self.directory / _ADDRESS_FILE).read_text()
        except FileNotFoundError:
            return ""

    def _save_address(self) -> None:
        """Saved before use: the status that reports it is written when containers run already."""
        if self.address and self.address != self._read_address():
            partial = self.directory / f"{_ADDRESS_FILE}.new"
            partial.write_text(self.address)
            partial.rename(self.directory / _ADDRESS_FILE)

    def _termination_file(self, container: str, attempt: int) -> Path:
        return self.directory / "messages" / f"{container}-{attempt}"

    def _hosts_mounts(self, pod: Pod, container: Container, hostname: str) -> tuple[Mount, ...]:
        """The pod's own `/etc/hosts`, unless a volume is mounted there."""
        if any(
            each.mount_path.rstrip("/") == hosts_file.HOSTS_PATH for each in container.volume_mounts
        ):
            return ()
        file, machine = self.directory / "hosts", Path(hosts_file.HOSTS_PATH)
        host_entries = machine.read_text(errors="replace") if machine.is_file() else ""
        text = hosts_file.build_hosts_file(pod, hostname, self.address, host_entries)
        if not file.is_file() or file.read_text(errors="replace") != text:
            file.write_text(text)
            file.chmod(0o644)
        return (Mount(file, hosts_file.HOSTS_PATH),)

    def _termination_mounts(self, container: Container, attempt: int) -> tuple[Mount, ...]:
        target = container.termination_message_path
        if not target:
            return ()
        file = self._termination_file(container.name, attempt)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        file.chmod(0o666)
        return (Mount(file, target if target.startswith("/") else f"/{target}"),)


def find_referenced_objects(pod: Pod) -> list[tuple[str, str, str]]:
    """The objects that a pod's variables and volumes refer to."""
    namespace = pod.metadata.namespace
    return [(kind, namespace, name) for kind, name in sorted(find_references(pod))]


def _resolve_hostname(pod: Pod) -> str:
    hostname = pod.spec.hostname_override or pod.spec.hostname or pod.metadata.name
    return hostname[:_MAX_HOSTNAME_LENGTH].rstrip("-.")


def _build_limits(container: Container) -> Limits:
    cpu, memory = (container.resources.limits.get(name) for name in ("cpu", "memory"))
    return Limits(
        None if cpu is None else parse_amount(cpu).milli,
        None if memory is None else parse_amount(memory).value,
    )


def _resolve_user(pod: Pod, container: Container) -> tuple[int | None, int | None]:
    """User and group of a container; None is Kilonova's own."""
    own, shared = container.security_context, pod.spec.security_context
    user = own.run_as_user if own.run_as_user is not None else shared.run_as_user
    group = own.run_as_group if own.run_as_group is not None else shared.run_as_group
    if os.geteuid() == 0:
        return user, group
    for name, requested, present in (
        ("runAsUser", user, os.geteuid()),
        ("runAsGroup", group, os.getegid()),
    ):
        if requested not in (None, present):
            raise ContainerConfigError(
                f"container {container.name} has {name} {requested}, but Kilonova runs as {present}"
                f" and is not root: omit {name}, or start Kilonova as root"
            )
    return None, None
