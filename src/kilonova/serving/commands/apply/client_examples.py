"""How clients call a service, in lines that can be copied. Pure."""

from collections.abc import Iterator

from kilonova.api.serving import InferenceService
from kilonova.component.command.output.formats import pluralize


def describe_ready_service(service: InferenceService) -> Iterator[str]:
    """The state of a service, its addresses, and examples."""
    known, status = service.metadata, service.status
    name = f"{known.namespace}/{known.name}"
    if status.phase == "Idle":
        yield f"{name} is idle: a request starts its first server, and is held until it is ready"
    else:
        desired = max(status.ready, sum(each.desired for each in status.servers))
        yield f"{name} is ready: {status.ready} of {pluralize(desired, 'server')}"
    if status.url:
        yield f"  HTTP  {status.url}"
    if status.grpc_address:
        yield f"  gRPC  {status.grpc_address}"
    yield "Try:"
    yield from (f"  {line}" for line in list_examples(service))


def list_examples(service: InferenceService) -> Iterator[str]:
    """Commands that ask the service something."""
    spec, status = service.spec, service.status
    key = ""
    if spec.auth is not None:
        is_key = spec.auth.api_keys is not None
        key = " -H 'Authorization: Bearer " + ("KEY'" if is_key else "TOKEN'")
    protocols = {each.protocol for each in spec.servers}
    model = next((model.name for group in status.servers for model in group.models), "MODEL")
    if status.url and "OpenAI" in protocols:
        body = f'{{"model": "{model}", "messages": [{{"role": "user", "content": "Hello"}}]}}'
        json = "-H 'content-type: application/json'"
        yield f"curl{key} {json} {status.url}/v1/chat/completions -d '{body}'"
    if status.url and "V2" in protocols:
        yield f"curl{key} {status.url}/v2/models/{model}"
    if status.url and protocols == {"HTTP"}:
        yield f"curl{key} {status.url}/"
    if status.grpc_address and "V2" in protocols:
        yield f"perf_analyzer -m {model} -i grpc -u {status.grpc_address}"
    yield f"kilonova serve bench {service.metadata.name}{_format_namespace(service)}"


def _format_namespace(service: InferenceService) -> str:
    namespace = service.metadata.namespace
    return "" if namespace == "default" else f" -n {namespace}"
