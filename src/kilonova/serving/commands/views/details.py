"""A service as text: `kilonova serve show`. Pure."""

from collections.abc import Iterator, Sequence

from kilonova.api.serving import InferenceService, names
from kilonova.component.command.output.formats import format_table
from kilonova.component.command.output.terminal_text import strip_control_characters
from kilonova.serving.commands.apply.client_examples import list_examples
from kilonova.serving.resources import Pod


def format_details(service: InferenceService, pods: Sequence[Pod]) -> str:
    """Blocks of text and tables."""
    blocks = (
        "\n".join(_list_head(service)),
        _format_groups(service),
        _format_models(service),
        _format_traces(service),
        _format_pods(pods),
        "\n".join(("Call it:", *(f"  {each}" for each in list_examples(service)))),
    )
    return "\n\n".join(filter(None, blocks))


def _list_head(service: InferenceService) -> Iterator[str]:
    known, spec, status = service.metadata, service.spec, service.status
    paused = ", paused" if spec.paused else ""
    yield f"Service   {known.namespace}/{known.name}: {status.phase or 'Pending'}{paused}"
    yield f"HTTP      {status.url or '-'}"
    yield f"gRPC      {status.grpc_address or '-'}"
    yield f"Inside    {status.service_address or '-'}"
    yield f"Gateways  {status.gateways} of {spec.gateway.replicas} ready"
    auth = spec.auth
    kinds = [] if auth is None else [f"tokens of {each.issuer}" for each in auth.jwt]
    if auth is not None and auth.api_keys is not None:
        kinds.append(f"API keys of Secret {auth.api_keys.secret}")
    if spec.gateway.tls is not None and spec.gateway.tls.client_ca_secret:
        kinds.append("client certificates")
    yield f"Auth      {', '.join(kinds) or 'none: everyone who reaches it may use it'}"


def _format_groups(service: InferenceService) -> str:
    state = {each.name: each for each in service.status.servers}
    scaling = {each.name: each for each in service.status.scaling}
    rows: list[tuple[str, ...]] = []
    for group in service.spec.servers:
        found, decision = state.get(group.name), scaling.get(group.name)
        bounds = group.autoscaling
        rows.append(
            (
                group.name,
                group.runtime,
                group.protocol,
                "-" if found is None else f"{found.ready}/{found.desired}",
                "-" if bounds is None else f"{bounds.min_replicas}-{bounds.max_replicas}",
                "-" if decision is None else decision.mode or "-",
            )
        )
    return format_table(("GROUP", "RUNTIME", "PROTOCOL", "READY", "BOUNDS", "DECIDED BY"), rows)


def _format_models(service: InferenceService) -> str:
    rows = [
        (model.name, group.name, str(model.copies), str(model.loading), model.message or "-")
        for group in service.status.servers
        for model in group.models
    ]
    header = ("MODEL", "GROUP", "LOADED", "LOADING", "PROBLEM")
    return format_table(header, rows) if rows else ""


def _format_traces(service: InferenceService) -> str:
    """The slowest and the failed requests of those that are traced, in milliseconds."""
    rows = [
        (
            strip_control_characters(each.request),
            strip_control_characters(each.model) or "-",
            each.status or "no answer",
            f"{each.duration:.4g}",
            _format_time(each.first_byte),
            _format_time(each.server_time),
            each.time,
            each.trace_id,
        )
        for each in service.status.traces
    ]
    header = ("REQUEST", "MODEL", "STATUS", "MS", "FIRST BYTE", "SERVER", "ENDED", "TRACE")
    return format_table(header, rows) if rows else ""


def _format_time(milliseconds: float | None) -> str:
    return "-" if milliseconds is None else f"{milliseconds:.4g}"


def _format_pods(pods: Sequence[Pod]) -> str:
    rows = [
        (
            each.metadata.name,
            each.metadata.labels.get(names.ROLE, "-"),
            each.metadata.labels.get(names.SERVER, "-"),
            _describe_state(each),
            each.status.pod_ip or "-",
            each.spec.node_name or "-",
        )
        for each in pods
    ]
    header = ("POD", "ROLE", "GROUP", "STATE", "ADDRESS", "NODE")
    return format_table(header, rows) if rows else ""


def _describe_state(pod: Pod) -> str:
    if pod.metadata.deletion_timestamp is not None:
        return "Draining"
    return "Ready" if pod.is_ready else pod.status.phase
