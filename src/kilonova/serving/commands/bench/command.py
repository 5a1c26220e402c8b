"""`kilonova serve bench`: a load generator."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from kilonova.component.command.flags import Context, Data, Kubeconfig, Namespace
from kilonova.serving.commands.name_completion import complete_services


def bench(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="The inference service.",
            autocompletion=complete_services,
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="An address instead: grpc://HOST:PORT, http://HOST/PATH."),
    ] = None,
    protocol: Annotated[
        Literal["v2-grpc", "v2-http", "openai", "http"] | None,
        typer.Option(help="What is spoken.  [default: that of the service; by the URL]"),
    ] = None,
    model: Annotated[
        str,
        typer.Option("--model", "-m", metavar="NAME", help="The model.  [default: the only one]"),
    ] = "",
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency",
            "-c",
            metavar="N",
            min=1,
            help="Closed loop: clients, each with one request at a time.  [default: 1]",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate",
            "-r",
            metavar="R",
            help="Open loop: requests per second, independent of responses.",
        ),
    ] = None,
    arrivals: Annotated[
        Literal["constant", "poisson"] | None,
        typer.Option(help="Open loop: when requests arrive.  [default: poisson]"),
    ] = None,
    step: Annotated[
        str,
        typer.Option(
            metavar="TIME:N,…",
            help="Clients (with --arrivals: rate) by time: 10s:5,20s:30; a ramp is 1m:5-50.",
        ),
    ] = "",
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Open loop: the times and tokens of a CSV file.", dir_okay=False
        ),
    ] = None,
    speed: Annotated[
        float, typer.Option(metavar="X", help="How many times faster to replay a trace.")
    ] = 1.0,
    duration: Annotated[
        str,
        typer.Option("--duration", "-d", metavar="DURATION", help="How long.  [default: 10s]"),
    ] = "",
    requests: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many requests at most.")
    ] = None,
    warm_up: Annotated[
        str, typer.Option(metavar="DURATION", help="Time at the start that is not measured.")
    ] = "0s",
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="How long a request may take.")
    ] = "60s",
    max_in_flight: Annotated[
        int, typer.Option(metavar="N", min=1, help="Open loop: requests at the same time.")
    ] = 2_000,
    body: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Requests in JSON, one or one on each line, instead of generated ones.",
            dir_okay=False,
        ),
    ] = None,
    batch: Annotated[
        int, typer.Option("--batch", "-b", metavar="N", min=1, help="v2: the first dimension.")
    ] = 1,
    shape: Annotated[
        list[str] | None,
        typer.Option(metavar="INPUT:1,3,…", help="v2: the shape of an input. Can be repeated."),
    ] = None,
    prompt_tokens: Annotated[
        int, typer.Option(metavar="N", min=1, help="OpenAI: words of a prompt.")
    ] = 64,
    max_tokens: Annotated[
        int, typer.Option(metavar="N", min=1, help="OpenAI: tokens of a completion at most.")
    ] = 64,
    stream: Annotated[
        bool, typer.Option("--stream/--no-stream", help="OpenAI: whether tokens are streamed.")
    ] = True,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            "-H",
            metavar="'NAME: VALUE'",
            help="A header of every request. Can be repeated. An API key is better in "
            "KILONOVA_API_KEY.",
        ),
    ] = None,
    connections: Annotated[
        int, typer.Option(metavar="N", min=1, max=256, help="gRPC: connections.")
    ] = 4,
    ca: Annotated[
        Path | None,
        typer.Option("--ca", metavar="FILE", help="Authority of the server.", dir_okay=False),
    ] = None,
    cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Client certificate.", dir_okay=False)
    ] = None,
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Its key.", dir_okay=False)
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="HTTPS: do not verify the server.")
    ] = False,
    slo: Annotated[
        str,
        typer.Option(
            metavar="NAME=TIME,…", help="Objectives: latency, ttft, itl: ttft=200ms,latency=2s."
        ),
    ] = "",
    seed: Annotated[int, typer.Option(metavar="N", help="Of random times and requests.")] = 0,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write a page with charts.")
    ] = None,
    output: Annotated[
        Literal["table", "json"], typer.Option("--output", "-o", help="Output format.")
    ] = "table",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")] = False,
    perf_analyzer: Annotated[
        bool,
        typer.Option("--perf-analyzer", help="Run Triton's perf_analyzer as a Job instead."),
    ] = False,
    image: Annotated[
        str, typer.Option(metavar="IMAGE", help="Of the Job.  [default: Triton's SDK]")
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print the Job of --perf-analyzer.")
    ] = False,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """Put load on a service or an address, and measure what comes back.

    A closed loop has a number of clients that wait for their answers. In an open loop requests come
    at a rate, as those of many users do, and latency counts from when a request was due. Requests
    are generated from the metadata of the model. Latencies are those of requests that succeed;
    failures are counted by status. Ctrl-C ends a run early.

    \b
    Examples:
      kilonova serve bench chat
      kilonova serve bench chat --concurrency 16 --duration 30s --warm-up 5s
      kilonova serve bench chat --step 10s:5,20s:30,10s:5 --report load.html
      kilonova serve bench chat --rate 20 --slo ttft=200ms,latency=2s -o json
      kilonova serve bench chat --trace requests.csv --speed 10
      kilonova serve bench --url grpc://127.0.0.1:8001 -m add --requests 1000
      kilonova serve bench chat --perf-analyzer --dry-run
    """
    from kilonova.component.failure import WrongUsage

    if name is None and url is None:
        raise WrongUsage("name a service, or an address with --url")
    if name is not None and url is not None:
        raise WrongUsage(f"the service {name} and --url are two targets: leave one out")
    from kilonova.serving.commands.bench.settings import (
        BenchSettings,
        LoadFlags,
        build_headers,
        build_plan,
        parse_slo,
        parse_warm_up,
        read_bodies,
    )
    from kilonova.serving.loadtest.targets.options import (
        CompletionOptions,
        TargetOptions,
        TensorOptions,
        TlsFiles,
    )
    from kilonova.serving.loadtest.targets.tensors import parse_shapes

    flags = LoadFlags(
        concurrency=concurrency,
        rate=rate,
        step=step,
        arrivals=arrivals,
        trace=trace,
        speed=speed,
        duration=duration,
        requests=requests,
        warm_up=warm_up,
        timeout=timeout,
        max_in_flight=max_in_flight,
        seed=seed,
        slo=slo,
    )
    if perf_analyzer:
        from kilonova.serving.commands.bench.perf_analyzer import (
            PerfAnalyzerOptions,
            run_perf_analyzer,
        )
        from kilonova.serving.commands.cluster_access import ServiceCluster

        if name is None:
            raise WrongUsage("--perf-analyzer runs in the cluster: name a service")
        options = PerfAnalyzerOptions(
            model=model,
            concurrency=concurrency or 1,
            batch=batch,
            requests=requests,
            shapes=tuple(shape or ()),
            headers=tuple(header or ()),
            image=image,
        )
        cluster = ServiceCluster(kubeconfig, context, data, namespace)
        run_perf_analyzer(cluster, name, options, dry_run=dry_run)
        return
    if dry_run:
        raise WrongUsage("--dry-run is for --perf-analyzer")
    plan = build_plan(flags)
    try:
        shapes = parse_shapes(shape or ())
    except ValueError as error:
        raise WrongUsage(f"--shape: {error}") from None
    settings = BenchSettings(
        plan=plan,
        warm_up=parse_warm_up(flags, plan),
        objectives=parse_slo(flags),
        protocol=protocol,
        output=output,
        report=report,
        is_quiet=quiet,
        target=TargetOptions(
            model=model,
            headers=build_headers(header or ()),
            bodies=read_bodies(body),
            completion=CompletionOptions(prompt_tokens, max_tokens, stream),
            tensors=TensorOptions(batch, shapes),
            tls=TlsFiles(ca, cert, key, not insecure),
            connections=connections,
            seed=seed,
        ),
    )
    if url is not None:
        from kilonova.serving.commands.bench.session import run_bench
        from kilonova.serving.loadtest.targets.address import AddressError, parse_address

        try:
            address = parse_address(url)
        except AddressError as error:
            raise WrongUsage(f"--url: {error}") from None
        run_bench(address, settings)
        return
    assert name is not None
    from kilonova.serving.commands.bench.service_session import run_service_bench
    from kilonova.serving.commands.cluster_access import ServiceCluster

    run_service_bench(ServiceCluster(kubeconfig, context, data, namespace), name, settings)
