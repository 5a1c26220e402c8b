"""KServe's v2 protocol over HTTP, in JSON."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from kilonova.component.failure import CommandFailed
from kilonova.serving.loadtest.outcome import TargetDescription
from kilonova.serving.loadtest.targets.connections import (
    HttpConnections,
    RequestFailed,
    build_request,
)
from kilonova.serving.loadtest.targets.http import HttpTarget, read_message
from kilonova.serving.loadtest.targets.options import TargetOptions
from kilonova.serving.loadtest.targets.tensors import TensorShape, generate_tensors


class _Input(msgspec.Struct, frozen=True):
    name: str
    datatype: str
    shape: list[int]


class _Metadata(msgspec.Struct, frozen=True):
    inputs: list[_Input] = []


class _IndexEntry(msgspec.Struct, frozen=True):
    name: str
    state: str = ""


async def build_v2_http_target(
    connections: HttpConnections, options: TargetOptions, headers: dict[str, str]
) -> HttpTarget:
    """A target for a model; its inputs are generated from its metadata unless there are bodies."""
    address = connections.address
    model = options.model or await _find_model(connections, headers)
    path = f"{address.path}/v2/models/{quote(model, safe='')}"
    bodies: Sequence[Any] = options.bodies
    if not bodies:
        request = build_request(address, "GET", path, headers=headers)
        metadata = await _ask(connections, request, _Metadata, f"the metadata of model {model}")
        shapes = [
            TensorShape(each.name, each.datatype, tuple(each.shape)) for each in metadata.inputs
        ]
        given = options.tensors
        tensors = generate_tensors(shapes, given.batch, given.shapes, options.seed)
        bodies = [{"inputs": [each.build_json() for each in tensors]}]
    requests = [
        build_request(address, "POST", f"{path}/infer", msgspec.json.encode(body), headers)
        for body in bodies
    ]
    return HttpTarget(
        connections, requests, TargetDescription(str(address), "v2-http", model), _check_answer
    )


async def _find_model(connections: HttpConnections, headers: dict[str, str]) -> str:
    address = connections.address
    path = f"{address.path}/v2/repository/index"
    request = build_request(address, "POST", path, b"{}", headers)
    found = await _ask(connections, request, list[_IndexEntry], "the index of models")
    return choose_model([each.name for each in found if each.state in ("READY", "")])


def choose_model(names: Sequence[str]) -> str:
    """The only model of a server; `CommandFailed` if there are others."""
    different = sorted(set(names))
    if len(different) == 1:
        return different[0]
    known = ", ".join(different) or "none is ready"
    raise CommandFailed(f"name a model by --model: the server has {known}")


async def _ask(connections: HttpConnections, request: bytes, type_: Any, what: str) -> Any:
    try:
        answer = await connections.send(request)
    except RequestFailed as failure:
        raise CommandFailed(f"{what} cannot be read: {failure}") from failure
    if answer.status >= 400:
        raise CommandFailed(
            f"{what} cannot be read: {answer.status} {read_message(answer)}".rstrip()
        )
    try:
        return msgspec.json.decode(answer.body, type=type_)
    except msgspec.DecodeError as error:
        raise CommandFailed(
            f"{connections.address} does not speak v2: {what} cannot be read: {error}"
        ) from None


def _check_answer(body: bytes) -> str:
    return "" if b'"outputs"' in body else "the answer has no outputs"
