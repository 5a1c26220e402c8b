"""`kilonova serve-model`: a model server for this machine."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from kilonova.serving.modelserver.settings import (
    DRAIN_SECONDS,
    FINISH_SECONDS,
    GRPC_PORT,
    HTTP_PORT,
    MAX_REQUEST_BYTES,
    METRICS_PORT,
)


def serve_model(
    host: Annotated[str, typer.Option(metavar="IP", help="The address to listen on.")] = "0.0.0.0",  # noqa: S104 - a server of a pod
    http_port: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=65535, help="The port of HTTP: v2 and OpenAI; 0 for any free."
        ),
    ] = HTTP_PORT,
    grpc_port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="The port of gRPC: v2.")
    ] = GRPC_PORT,
    metrics_port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="The port of /metrics.")
    ] = METRICS_PORT,
    model_repository: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Models as in Triton: MODEL/VERSION/model.onnx."),
    ] = None,
    model_control: Annotated[
        Literal["all", "explicit"],
        typer.Option(
            help="Whether to load all models of the repository, or only those of --model."
        ),
    ] = "all",
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[,OPTION=VALUE…]",
            help="A model to load: of the repository, or identity, add or slow, with options. "
            "Can be repeated.",
        ),
    ] = None,
    llm: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[,OPTION=VALUE…]", help="A language model to serve. Can be repeated."
        ),
    ] = None,
    otlp_endpoint: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where traces are sent by OTLP over gRPC.")
    ] = "",
    max_request_bytes: Annotated[
        int, typer.Option(metavar="N", min=1, help="The size of a request at most.")
    ] = MAX_REQUEST_BYTES,
    drain_delay: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0, help="How long requests are still accepted after SIGTERM."
        ),
    ] = DRAIN_SECONDS,
    drain_timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0, help="How long requests in flight may take after that."
        ),
    ] = FINISH_SECONDS,
) -> None:
    """Serve models on this machine, until SIGTERM or Ctrl-C.

    It speaks KServe's v2 protocol over HTTP and gRPC, with Triton's extensions, and OpenAI's API
    for language models. Without a repository, --model and --llm it serves identity, add and slow.

    \b
    Examples:
      kilonova serve-model --model-repository models
      kilonova serve-model --model slow,time=20ms,instances=4
      kilonova serve-model --llm tiny,prefill=100us,decode=10ms,slots=16
    """
    from kilonova.serving.modelserver.process import run_model_server
    from kilonova.serving.modelserver.settings import ServerSettings

    run_model_server(
        ServerSettings(
            host=host,
            http_port=http_port,
            grpc_port=grpc_port,
            metrics_port=metrics_port,
            model_repository=model_repository,
            loads_all=model_control == "all",
            models=tuple(model or ()),
            llms=tuple(llm or ()),
            otlp_endpoint=otlp_endpoint,
            max_request_bytes=max_request_bytes,
            drain_delay=drain_delay,
            drain_timeout=drain_timeout,
        )
    )
