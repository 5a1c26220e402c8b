"""Builds the target for an address."""

import asyncio
import ssl

from kilonova.component.failure import CommandFailed
from kilonova.serving.loadtest.outcome import Target, TargetDescription
from kilonova.serving.loadtest.targets.address import Address
from kilonova.serving.loadtest.targets.options import Protocol, TargetOptions, TlsFiles


def choose_protocol(address: Address) -> Protocol:
    """By the address: gRPC is v2; paths below `/v1/` are the OpenAI API; no path is v2; any other
    is HTTP."""
    if address.is_grpc:
        return "v2-grpc"
    if address.path.startswith("/v1/"):
        return "openai"
    return "http" if address.path else "v2-http"


async def build_target(address: Address, protocol: Protocol, options: TargetOptions) -> Target:
    """A target; what it needs to know of the model is asked of the server. `CommandFailed`."""
    if address.is_grpc != (protocol == "v2-grpc"):
        scheme = "grpc://" if protocol == "v2-grpc" else "http://"
        raise CommandFailed(f"{address} is no address for {protocol}: it begins with {scheme}")
    if protocol == "v2-grpc":
        from kilonova.serving.loadtest.targets.v2_grpc import build_v2_grpc_target

        return await build_v2_grpc_target(address, options)
    return await _build_http_target(address, protocol, options)


async def _build_http_target(
    address: Address, protocol: Protocol, options: TargetOptions
) -> Target:
    import msgspec

    from kilonova.serving.loadtest.targets.connections import HttpConnections, build_request

    tls = _build_tls_context(options.tls) if address.is_tls else None
    connections = HttpConnections(address, tls)
    headers = dict(options.headers)
    if protocol == "v2-http":
        from kilonova.serving.loadtest.targets.v2_http import build_v2_http_target

        return await build_v2_http_target(connections, options, headers)
    if protocol == "openai":
        from kilonova.serving.loadtest.targets.openai import OpenAiTarget

        model = options.model or await OpenAiTarget.find_model(connections, headers)
        clock = asyncio.get_running_loop().time
        return OpenAiTarget(connections, options, headers, model, clock)
    from kilonova.serving.loadtest.targets.http import HttpTarget

    bodies = [msgspec.json.encode(each) for each in options.bodies] or [b""]
    requests = [
        build_request(address, "POST" if body else "GET", address.path, body, headers)
        for body in bodies
    ]
    return HttpTarget(connections, requests, TargetDescription(str(address), "http"))


def _build_tls_context(files: TlsFiles) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=files.ca)
        if files.certificate is not None:
            context.load_cert_chain(files.certificate, files.key)
    except (OSError, ssl.SSLError) as error:
        raise CommandFailed(f"the certificates cannot be read: {error}") from error
    if not files.is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
