"""Starting a container: all that its process gets, put together."""

import os
import shutil
from pathlib import Path

import msgspec

from kilonova.local.nodes.process.kubelet import hostsfile
from kilonova.local.nodes.process.kubelet.abilities import possible_mounts, shortfalls
from kilonova.local.nodes.process.kubelet.devices import gpus_wanted
from kilonova.local.nodes.process.kubelet.environment import (
    ConfigError,
    Given,
    command_line,
    environment,
)
from kilonova.local.nodes.process.kubelet.fields import Surroundings, amount_of
from kilonova.local.nodes.process.kubelet.means import HOST_ADDRESS, Means, log_file
from kilonova.local.nodes.process.kubelet.payloads import Material, references
from kilonova.local.nodes.process.kubelet.pods import Container, Pod
from kilonova.local.nodes.process.kubelet.runs import run_id
from kilonova.local.nodes.process.kubelet.sources import NamespaceSources
from kilonova.local.nodes.process.kubelet.tokens import PodTokens
from kilonova.local.nodes.process.kubelet.volumes import PodVolumes
from kilonova.local.nodes.process.runtime import Capabilities, ContainerSpec, Limits, Mount
from kilonova.local.nodes.process.services import dns_environment, service_environment

_LONGEST_HOSTNAME = 63
_GPUS_FILE = "gpus.json"
_HOME_OF_OTHERS = "/home/pod"


class NoCommand(Exception):
    """The container leaves its command to an image."""

    def __init__(self, container: str) -> None:
        super().__init__(
            f"container {container} has no command: this node runs processes and pulls no images; "
            "give it a command, or choose a simulated node"
        )


class PodPlace:
    """A pod's place on this machine: its folder, volumes, address and GPUs."""

    def __init__(self, means: Means, uid: str) -> None:
        self._means = means
        self._uid = uid
        self._abilities: Capabilities | None = None
        self.folder = means.pod_folder(uid)
        self.address = ""
        self._tokens = PodTokens(means.client, means.clock.now)
        self.volumes = PodVolumes(
            self.folder,
            means.allowed_paths,
            self._tokens,
            means.claimed,
            hidden=means.folder.parent,
        )

    def recover(self, pod: Pod) -> None:
        """Take back the address and GPUs that it had before a restart of the kubelet."""
        said = pod.status.pod_ip
        if pod.spec.host_network:
            self.address = HOST_ADDRESS
        elif said and self._means.addresses.keep(self._uid, said):
            self.address = said
        try:
            held = msgspec.json.decode(
                (self.folder / _GPUS_FILE).read_bytes(), type=dict[str, list[int]]
            )
        except FileNotFoundError:
            return
        for container, indices in held.items():
            self._means.devices.keep(self._uid, container, indices)

    async def prepare(self, pod: Pod) -> None:
        """Have an address and all volumes, or bring them up to date; `SetUpFailed` if it cannot.

        Without a free address `self.address` stays empty.
        """
        self._abilities = await self._means.abilities.known()
        if not self.address:
            if pod.spec.host_network:
                self.address = HOST_ADDRESS
            else:
                self.address = self._means.addresses.take(self._uid) or ""
        self._scratch.mkdir(parents=True, exist_ok=True)
        await self.volumes.set_up(pod, self._material(pod))

    def spec(self, pod: Pod, container: Container, attempt: int) -> ContainerSpec:
        """The next run of a container; `ConfigError` or `NoCommand` if it cannot be."""
        if not container.command:
            raise NoCommand(container.name)
        abilities = self._prepared_abilities
        private = abilities.network and not pod.spec.host_network
        user, group = _identity(pod, container)
        indices = self._take_gpus(container)
        hostname = _hostname(pod)
        home, home_mounts = str(self._scratch), tuple[Mount, ...]()
        if abilities.mounts:
            home_mounts = (Mount(self._scratch, home),)  # the data folder is hidden
        if user not in (None, os.geteuid()):
            # Others cannot pass through the data folder.
            home = _HOME_OF_OTHERS if abilities.mounts else "/"
            home_mounts = (Mount(self._scratch, home),) if abilities.mounts else ()
        given = Given(
            NamespaceSources(self._means.objects, pod.metadata.namespace),
            self._around(),
            service_environment(
                self._means.services.objects(),
                pod.metadata.namespace,
                links=pod.spec.enable_service_links,
                by_doors=not private,
            ),
            {
                "PATH": self._means.path,
                "HOME": home,
                "HOSTNAME": hostname,
                **(dns_environment(pod.metadata.namespace) if private else {}),
                **self._means.devices.variables(indices),
            },
            self.volumes.read,
        )
        variables = environment(pod, container, given)
        if user is not None:
            os.chown(self._scratch, user, -1 if group is None else group)
        return ContainerSpec(
            id=run_id(pod.uid, container.name, attempt),
            pod_uid=pod.uid,
            name=container.name,
            command=command_line(container, variables),
            env=variables,
            folder=container.working_dir or home,
            log=log_file(self.folder, container.name, attempt),
            # Without an address it is the machine's network that it sees.
            address="" if pod.spec.host_network else self.address,
            mounts=(
                *home_mounts,
                *possible_mounts(container, self.volumes.mounts(container, variables), abilities),
                *(self._termination_mounts(container, attempt) if abilities.mounts else ()),
                *(self._hosts_mounts(pod, container, hostname) if abilities.mounts else ()),
            ),
            hidden=(str(self._means.folder.parent),),
            privileged=container.security_context.privileged,
            hostname=hostname,
            limits=_limits(container),
            user=user,
            group=group,
            tty=container.tty,
            stdin=container.stdin,
            stdin_once=container.stdin_once,
        )

    def shortfalls(self, container: Container) -> list[tuple[str, str]]:
        """What it goes without on this machine: reasons and messages of events."""
        return shortfalls(container, self._prepared_abilities)

    def last_words(self, container: str, attempt: int, most: int) -> bytes:
        """The end of what a run has left as its termination message."""
        try:
            with self._termination_file(container, attempt).open("rb") as file:
                file.seek(-min(most, file.seek(0, os.SEEK_END)), os.SEEK_END)
                return file.read(most)
        except FileNotFoundError:
            return b""

    def forget_run(self, container: str, attempt: int) -> None:
        """Nobody can ask for what a run has left any more."""
        self._termination_file(container, attempt).unlink(missing_ok=True)
        log = log_file(self.folder, container, attempt)
        for path in log.parent.glob(f"{log.name}*"):
            path.unlink(missing_ok=True)

    def release_gpus(self, container: str) -> None:
        """A container that will not run again needs no GPUs."""
        if container in self._means.devices.held_by(self._uid):
            self._means.devices.free(self._uid, container)
            self._keep_gpus()

    def vacate(self) -> None:
        """The pod has ended: all but its logs goes."""
        self._means.addresses.free(self._uid)
        self._means.devices.free(self._uid)
        self._means.objects.release(self._uid)
        self.volumes.remove()
        for name in (_GPUS_FILE, "hosts", "scratch", "messages"):
            path = self.folder / name
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def remove(self) -> None:
        """The pod is gone."""
        self.vacate()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _prepared_abilities(self) -> Capabilities:
        assert self._abilities is not None, "nothing starts in a place that is not prepared"
        return self._abilities

    @property
    def _scratch(self) -> Path:
        return self.folder / "scratch"

    def _around(self) -> Surroundings:
        return Surroundings(self.address, HOST_ADDRESS, self._means.allocatable)

    def _material(self, pod: Pod) -> Material:
        sources = NamespaceSources(self._means.objects, pod.metadata.namespace)
        return Material(sources, self._around(), self._tokens.text)

    def _take_gpus(self, container: Container) -> tuple[int, ...]:
        count = gpus_wanted(container)
        if not count:
            return ()
        indices = self._means.devices.take(self._uid, container.name, count)
        self._keep_gpus()
        return indices

    def _keep_gpus(self) -> None:
        """Before anyone uses them: a kubelet that comes later must know."""
        held = self._means.devices.held_by(self._uid)
        partial = self.folder / f"{_GPUS_FILE}.new"
        partial.write_bytes(msgspec.json.encode(held))
        partial.rename(self.folder / _GPUS_FILE)

    def _termination_file(self, container: str, attempt: int) -> Path:
        return self.folder / "messages" / f"{container}-{attempt}"

    def _hosts_mounts(self, pod: Pod, container: Container, hostname: str) -> tuple[Mount, ...]:
        """The pod's own `/etc/hosts`, unless a volume is there."""
        if any(each.mount_path.rstrip("/") == hostsfile.PATH for each in container.volume_mounts):
            return ()
        file, machine = self.folder / "hosts", Path(hostsfile.PATH)
        known = machine.read_text(errors="replace") if machine.is_file() else ""
        text = hostsfile.hosts_text(pod, hostname, self.address, known)
        if not file.is_file() or file.read_text(errors="replace") != text:
            file.write_text(text)
            file.chmod(0o644)
        return (Mount(file, hostsfile.PATH),)

    def _termination_mounts(self, container: Container, attempt: int) -> tuple[Mount, ...]:
        target = container.termination_message_path
        if not target:
            return ()
        file = self._termination_file(container.name, attempt)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        file.chmod(0o666)
        return (Mount(file, target if target.startswith("/") else f"/{target}"),)


def followed(pod: Pod) -> list[tuple[str, str, str]]:
    """The objects that a pod's variables and volumes are made from."""
    namespace = pod.metadata.namespace
    return [(kind, namespace, name) for kind, name in sorted(references(pod))]


def _hostname(pod: Pod) -> str:
    wanted = pod.spec.hostname_override or pod.spec.hostname or pod.metadata.name
    return wanted[:_LONGEST_HOSTNAME].rstrip("-.")


def _limits(container: Container) -> Limits:
    cpu, memory = (container.resources.limits.get(name) for name in ("cpu", "memory"))
    return Limits(
        None if cpu is None else amount_of(cpu).milli,
        None if memory is None else amount_of(memory).value,
    )


def _identity(pod: Pod, container: Container) -> tuple[int | None, int | None]:
    """As whom a container runs; None is who we are."""
    own, shared = container.security_context, pod.spec.security_context
    user = own.run_as_user if own.run_as_user is not None else shared.run_as_user
    group = own.run_as_group if own.run_as_group is not None else shared.run_as_group
    if os.geteuid() == 0:
        return user, group
    for name, wanted, present in (
        ("runAsUser", user, os.geteuid()),
        ("runAsGroup", group, os.getegid()),
    ):
        if wanted not in (None, present):
            raise ConfigError(
                f"container {container.name} has {name} {wanted}, but Kilonova runs as {present} "
                f"and is not root: leave {name} out, or start Kilonova as root"
            )
    return None, None
