"""Pods as the kubelet sees them: the fields that it uses."""

from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube import Resource


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """Who a pod is."""

    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None


class Header(msgspec.Struct, frozen=True):
    """A header of a request."""

    name: str
    value: str = ""


class ExecAction(msgspec.Struct, frozen=True):
    """Run a command in the container."""

    command: tuple[str, ...] = ()


class HttpGetAction(msgspec.Struct, frozen=True, rename="camel"):
    """Ask for a page."""

    port: int | str
    path: str = "/"
    host: str = ""
    scheme: str = "HTTP"
    http_headers: tuple[Header, ...] = ()


class TcpSocketAction(msgspec.Struct, frozen=True):
    """Open a connection."""

    port: int | str
    host: str = ""


class GrpcAction(msgspec.Struct, frozen=True):
    """Ask the gRPC health service."""

    port: int
    service: str = ""


class SleepAction(msgspec.Struct, frozen=True):
    """Let time pass."""

    seconds: int = 0


class Probe(msgspec.Struct, frozen=True, rename="camel"):
    """How a container's health is found out; times in seconds."""

    exec: ExecAction | None = None
    http_get: HttpGetAction | None = None
    tcp_socket: TcpSocketAction | None = None
    grpc: GrpcAction | None = None
    initial_delay_seconds: int = 0
    timeout_seconds: int = 1
    period_seconds: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None


class Hook(msgspec.Struct, frozen=True, rename="camel"):
    """What is done after a container's start, or before its end."""

    exec: ExecAction | None = None
    http_get: HttpGetAction | None = None
    tcp_socket: TcpSocketAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(msgspec.Struct, frozen=True, rename="camel"):
    """A container's hooks."""

    post_start: Hook | None = None
    pre_stop: Hook | None = None
    stop_signal: str = ""


class Resources(msgspec.Struct, frozen=True):
    """What a container asks for, and may have."""

    requests: dict[str, str | int | float] = {}
    limits: dict[str, str | int | float] = {}


class FieldRef(msgspec.Struct, frozen=True, rename="camel"):
    """A field of the pod."""

    field_path: str
    api_version: str = "v1"


class ResourceFieldRef(msgspec.Struct, frozen=True, rename="camel"):
    """An amount that a container asks for, or may have."""

    resource: str
    container_name: str = ""
    divisor: str | int | float = "0"


class KeyRef(msgspec.Struct, frozen=True):
    """A key of a ConfigMap or Secret."""

    key: str
    name: str = ""
    optional: bool = False


class FileKeyRef(msgspec.Struct, frozen=True, rename="camel"):
    """A key of a file in a volume."""

    key: str
    path: str
    volume_name: str
    optional: bool = False


class ValueFrom(msgspec.Struct, frozen=True, rename="camel"):
    """Where a variable's value comes from."""

    field_ref: FieldRef | None = None
    resource_field_ref: ResourceFieldRef | None = None
    config_map_key_ref: KeyRef | None = None
    secret_key_ref: KeyRef | None = None
    file_key_ref: FileKeyRef | None = None


class Variable(msgspec.Struct, frozen=True, rename="camel"):
    """A variable of a container's environment."""

    name: str
    value: str = ""
    value_from: ValueFrom | None = None


class ObjectRef(msgspec.Struct, frozen=True):
    """A ConfigMap or Secret."""

    name: str = ""
    optional: bool = False


class VariablesFrom(msgspec.Struct, frozen=True, rename="camel"):
    """All keys of an object as variables."""

    prefix: str = ""
    config_map_ref: ObjectRef | None = None
    secret_ref: ObjectRef | None = None


class VolumeMount(msgspec.Struct, frozen=True, rename="camel"):
    """A volume, where a container sees it."""

    name: str
    mount_path: str
    read_only: bool = False
    sub_path: str = ""
    sub_path_expr: str = ""


class ContainerPort(msgspec.Struct, frozen=True, rename="camel"):
    """A port that a container names."""

    container_port: int
    name: str = ""
    protocol: str = "TCP"


class SecurityContext(msgspec.Struct, frozen=True, rename="camel"):
    """As whom processes run."""

    run_as_user: int | None = None
    run_as_group: int | None = None
    privileged: bool = False


class ExitCodes(msgspec.Struct, frozen=True):
    """Which exit codes a rule is for."""

    operator: str
    values: tuple[int, ...] = ()


class RestartRule(msgspec.Struct, frozen=True, rename="camel"):
    """What follows some exit codes."""

    action: str
    exit_codes: ExitCodes | None = None


class Container(msgspec.Struct, frozen=True, rename="camel"):
    """One container of a pod."""

    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[Variable, ...] = ()
    env_from: tuple[VariablesFrom, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    resources: Resources = Resources()
    restart_policy: str | None = None
    restart_policy_rules: tuple[RestartRule, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    startup_probe: Probe | None = None
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    lifecycle: Lifecycle = Lifecycle()
    security_context: SecurityContext = SecurityContext()
    termination_message_path: str = "/dev/termination-log"
    termination_message_policy: str = "File"
    tty: bool = False
    stdin: bool = False
    stdin_once: bool = False


class ReadinessGate(msgspec.Struct, frozen=True, rename="camel"):
    """A condition of others that a pod needs to be ready."""

    condition_type: str


class HostAlias(msgspec.Struct, frozen=True):
    """Names for an address in `/etc/hosts`."""

    ip: str
    hostnames: tuple[str, ...] = ()


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What a pod should be. Volumes are as stored: each kind is read where it is served."""

    node_name: str = ""
    restart_policy: str = "Always"
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[Container, ...] = ()
    volumes: tuple[JsonObject, ...] = ()
    service_account_name: str = "default"
    hostname: str = ""
    hostname_override: str | None = None
    subdomain: str = ""
    host_aliases: tuple[HostAlias, ...] = ()
    host_network: bool = False
    enable_service_links: bool = True
    termination_grace_period_seconds: int = 30
    active_deadline_seconds: int | None = None
    readiness_gates: tuple[ReadinessGate, ...] = ()
    security_context: SecurityContext = SecurityContext()


class Terminated(msgspec.Struct, frozen=True, rename="camel"):
    """How a container ended."""

    exit_code: int
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    container_id: str = msgspec.field(default="", name="containerID")


class RunningState(msgspec.Struct, frozen=True, rename="camel"):
    """Since when a container runs."""

    started_at: str | None = None


class ContainerState(msgspec.Struct, frozen=True):
    """What a container was last said to be doing."""

    running: RunningState | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What was last said of a container."""

    name: str
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    ready: bool = False
    started: bool | None = None
    container_id: str = msgspec.field(default="", name="containerID")


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What was last said of a pod."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: str | None = None
    conditions: tuple[JsonObject, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(msgspec.Struct, frozen=True):
    """A pod of this node."""

    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def full_name(self) -> str:
        """As the kubelet names it in messages: `name_namespace(uid)`."""
        return f"{self.metadata.name}_{self.metadata.namespace}({self.uid})"

    @property
    def is_leaving(self) -> bool:
        """Whether its deletion was asked for."""
        return self.metadata.deletion_timestamp is not None

    @property
    def has_ended(self) -> bool:
        """Whether it was said to have ended, for good."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def all_containers(self) -> tuple[Container, ...]:
        """Init containers, then the others, then those that were added to look at them."""
        spec = self.spec
        return (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)

    def container(self, name: str) -> Container:
        """The container of that name; the pod has one."""
        return next(each for each in self.all_containers if each.name == name)

    def is_init(self, name: str) -> bool:
        """Whether it is an init container, sidecars included."""
        return any(each.name == name for each in self.spec.init_containers)

    def is_ephemeral(self, name: str) -> bool:
        """Whether it was added to a running pod, by `kubectl debug`."""
        return any(each.name == name for each in self.spec.ephemeral_containers)

    def reported(self, name: str) -> ContainerStatus | None:
        """What was last said of a container."""
        status = self.status
        said = (
            *status.init_container_statuses,
            *status.container_statuses,
            *status.ephemeral_container_statuses,
        )
        return next((each for each in said if each.name == name), None)


PODS: Resource[Pod] = Resource("", "v1", "pods", "Pod", True, Pod)


def is_sidecar(container: Container) -> bool:
    """Of an init container: whether it goes on beside the others."""
    return container.restart_policy == "Always"


def volume_source(volume: JsonObject) -> tuple[str, JsonObject]:
    """The kind of a volume, and what it says beside its name."""
    found = next(((kind, value) for kind, value in volume.items() if kind != "name"), None)
    if found is None:
        return "emptyDir", {}
    kind, value = found
    source: dict[str, Any] = value or {}
    return kind, source
