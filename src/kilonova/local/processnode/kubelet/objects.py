"""Pods as the kubelet sees them: only the fields it uses."""

from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube import Resource


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata of a pod."""

    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None


class HttpHeader(msgspec.Struct, frozen=True):
    """A header of an HTTP probe."""

    name: str
    value: str = ""


class ExecAction(msgspec.Struct, frozen=True):
    """Execute a command in the container."""

    command: tuple[str, ...] = ()


class HttpGetAction(msgspec.Struct, frozen=True, rename="camel"):
    """Send an HTTP GET request."""

    port: int | str
    path: str = "/"
    host: str = ""
    scheme: str = "HTTP"
    http_headers: tuple[HttpHeader, ...] = ()


class TcpSocketAction(msgspec.Struct, frozen=True):
    """Open a TCP connection."""

    port: int | str
    host: str = ""


class GrpcAction(msgspec.Struct, frozen=True):
    """Call the gRPC health service."""

    port: int
    service: str = ""


class SleepAction(msgspec.Struct, frozen=True):
    """Sleep for some seconds."""

    seconds: int = 0


class Probe(msgspec.Struct, frozen=True, rename="camel"):
    """How a container's health is probed; times in seconds."""

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


class LifecycleHandler(msgspec.Struct, frozen=True, rename="camel"):
    """What a hook executes."""

    exec: ExecAction | None = None
    http_get: HttpGetAction | None = None
    tcp_socket: TcpSocketAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(msgspec.Struct, frozen=True, rename="camel"):
    """The hooks of a container."""

    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str = ""


class ResourceRequirements(msgspec.Struct, frozen=True):
    """Requests and limits of a container."""

    requests: dict[str, str | int | float] = {}
    limits: dict[str, str | int | float] = {}


class ObjectFieldSelector(msgspec.Struct, frozen=True, rename="camel"):
    """A field of the pod."""

    field_path: str
    api_version: str = "v1"


class ResourceFieldSelector(msgspec.Struct, frozen=True, rename="camel"):
    """A resource request or limit of a container."""

    resource: str
    container_name: str = ""
    divisor: str | int | float = "0"


class KeySelector(msgspec.Struct, frozen=True):
    """A key of a ConfigMap or Secret."""

    key: str
    name: str = ""
    optional: bool = False


class FileKeySelector(msgspec.Struct, frozen=True, rename="camel"):
    """A key of an env file in a volume."""

    key: str
    path: str
    volume_name: str
    optional: bool = False


class EnvVarSource(msgspec.Struct, frozen=True, rename="camel"):
    """The source of a variable's value."""

    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: KeySelector | None = None
    secret_key_ref: KeySelector | None = None
    file_key_ref: FileKeySelector | None = None


class EnvVar(msgspec.Struct, frozen=True, rename="camel"):
    """A variable of a container's environment."""

    name: str
    value: str = ""
    value_from: EnvVarSource | None = None


class ObjectReference(msgspec.Struct, frozen=True):
    """The name of a ConfigMap or Secret."""

    name: str = ""
    optional: bool = False


class EnvFromSource(msgspec.Struct, frozen=True, rename="camel"):
    """All keys of an object as variables."""

    prefix: str = ""
    config_map_ref: ObjectReference | None = None
    secret_ref: ObjectReference | None = None


class VolumeMount(msgspec.Struct, frozen=True, rename="camel"):
    """Where a container mounts a volume."""

    name: str
    mount_path: str
    read_only: bool = False
    sub_path: str = ""
    sub_path_expr: str = ""


class ContainerPort(msgspec.Struct, frozen=True, rename="camel"):
    """A named port of a container."""

    container_port: int
    name: str = ""
    protocol: str = "TCP"


class SecurityContext(msgspec.Struct, frozen=True, rename="camel"):
    """User and group of the processes."""

    run_as_user: int | None = None
    run_as_group: int | None = None
    privileged: bool = False


class RestartExitCodes(msgspec.Struct, frozen=True):
    """The exit codes that a rule matches."""

    operator: str
    values: tuple[int, ...] = ()


class RestartRule(msgspec.Struct, frozen=True, rename="camel"):
    """An action for some exit codes."""

    action: str
    exit_codes: RestartExitCodes | None = None


class Container(msgspec.Struct, frozen=True, rename="camel"):
    """One container of a pod."""

    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
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
    """An additional condition that a pod needs to be ready."""

    condition_type: str


class HostAlias(msgspec.Struct, frozen=True):
    """Host names for an address in `/etc/hosts`."""

    ip: str
    hostnames: tuple[str, ...] = ()


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a pod. Volumes are unparsed: each kind is parsed where it is set up."""

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


class TerminatedState(msgspec.Struct, frozen=True, rename="camel"):
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
    """The last reported state of a container."""

    running: RunningState | None = None
    terminated: TerminatedState | None = None


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The last reported status of a container."""

    name: str
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    ready: bool = False
    started: bool | None = None
    container_id: str = msgspec.field(default="", name="containerID")


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The last reported status of a pod."""

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
        """The pod's name in kubelet messages: `name_namespace(uid)`."""
        return f"{self.metadata.name}_{self.metadata.namespace}({self.uid})"

    @property
    def is_terminating(self) -> bool:
        """Whether it has a deletion timestamp."""
        return self.metadata.deletion_timestamp is not None

    @property
    def is_terminal(self) -> bool:
        """Whether its reported phase is Succeeded or Failed."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def all_containers(self) -> tuple[Container, ...]:
        """Init containers, then regular, then ephemeral ones."""
        spec = self.spec
        return (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)

    def container(self, name: str) -> Container:
        """The container of that name, which must exist."""
        return next(each for each in self.all_containers if each.name == name)

    def is_init(self, name: str) -> bool:
        """Whether it is an init container, including sidecars."""
        return any(each.name == name for each in self.spec.init_containers)

    def is_ephemeral(self, name: str) -> bool:
        """Whether it is an ephemeral container, as added by `kubectl debug`."""
        return any(each.name == name for each in self.spec.ephemeral_containers)

    def reported_status(self, name: str) -> ContainerStatus | None:
        """The last reported status of a container."""
        status = self.status
        statuses = (
            *status.init_container_statuses,
            *status.container_statuses,
            *status.ephemeral_container_statuses,
        )
        return next((each for each in statuses if each.name == name), None)


PODS: Resource[Pod] = Resource("", "v1", "pods", "Pod", True, Pod)


def is_sidecar(container: Container) -> bool:
    """Whether an init container is a sidecar (`restartPolicy: Always`)."""
    return container.restart_policy == "Always"


def volume_source(volume: JsonObject) -> tuple[str, JsonObject]:
    """The kind and the source of a volume."""
    found = next(((kind, value) for kind, value in volume.items() if kind != "name"), None)
    if found is None:
        return "emptyDir", {}
    kind, value = found
    source: dict[str, Any] = value or {}
    return kind, source
