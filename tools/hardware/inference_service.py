"""`inference-service`: a transformer on a GPU of this machine, served by `kilonova up` to clients.

Its server is `kilonova serve-model` with the model on PyTorch: scheduled to a GPU, behind Envoy,
scaled to zero and back, and measured by `kilonova serve bench`.
"""

import argparse
import asyncio
import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kilonova.api.gpu.annotations import DEVICES
from kilonova.kube import unstructured_resource
from tools.hardware.local_cluster import LocalCluster, start_cluster
from tools.hardware.transcript import Transcript

PODS = unstructured_resource("", "v1", "pods", "Pod", True)
_LLM = "large,backend=torch,slots=64,queue=1024,cache=131072,chunk=8192"
_NAME = "large"
_NAMESPACE = ("-n", "default")
_CLIENTS = (1, 8, 32, 64)
_WARM_UP = 3
_IDLE_SECONDS = 120


def main(arguments: Sequence[str]) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(prog="python -m tools.hardware inference-service")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the transcript here, too")
    parser.add_argument(
        "--shape",
        default="layers=32,width=4096,heads=32",
        metavar="OPTIONS",
        help="the model; the default has 6.6 billion weights",
    )
    parser.add_argument("--gpus", type=int, default=1, help="of the server; 0 computes on the CPU")
    parser.add_argument("--prompt", type=int, default=512, help="tokens of prompts")
    parser.add_argument("--words", type=int, default=128, help="words of answers")
    parser.add_argument("--seconds", type=int, default=30, help="of each row")
    options = parser.parse_args(arguments)
    transcript = Transcript(options.out)
    transcript.write("# A transformer that is served", "")
    transcript.write(f"`python -m tools.hardware inference-service`, {options.shape}", "")
    try:
        asyncio.run(_run(transcript, options))
    except (subprocess.SubprocessError, TimeoutError) as error:
        transcript.check("nothing fails unexpectedly", False, str(error))
    return transcript.summary()


async def _run(transcript: Transcript, options: argparse.Namespace) -> None:
    async with start_cluster() as cluster:
        path = cluster.data / "service.json"
        path.write_text(json.dumps(_service(options)))
        begin = time.perf_counter()
        await cluster.run("serve", "-f", str(path), "--timeout", "5m")
        transcript.write(f"- from the command to ready: {time.perf_counter() - begin:.1f} s")
        held: list[str] = [
            each["metadata"].get("annotations", {}).get(DEVICES, "")
            for each in await _list_servers(cluster)
        ]
        gpus = [index for text in held for index in text.split(",") if index]
        transcript.check(
            "there is one server, with its GPUs",
            len(held) == 1 and len(gpus) == options.gpus,
            f"{DEVICES}: {held}",
        )
        transcript.heading(f"Prompts of {options.prompt} tokens, answers of {options.words} words")
        await _measure(transcript, cluster, options)
        transcript.heading("To zero, and back")
        await _wait_until_idle(cluster)
        transcript.check("an idle service has no server", not await _list_servers(cluster))
        begin = time.perf_counter()
        result = await _bench(cluster, options, "--requests", "1")
        transcript.check("a request that finds no server is answered", result["succeeded"] == 1)
        transcript.write(f"- it took {time.perf_counter() - begin:.1f} s, with the model's start")


async def _measure(
    transcript: Transcript, cluster: LocalCluster, options: argparse.Namespace
) -> None:
    rows: list[tuple[object, ...]] = []
    for clients in _CLIENTS:
        load = (
            "-c",
            str(clients),
            "-d",
            f"{options.seconds + _WARM_UP}s",
            "--warm-up",
            f"{_WARM_UP}s",
        )
        result = await _bench(cluster, options, *load)
        transcript.check(
            f"{clients} clients: no request failed",
            result["succeeded"] > 0 and result["failed"] == 0,
            f"{result['succeeded']} succeeded, {result['failed']} failed",
        )
        first, between = result["timeToFirstToken"], result["interTokenLatency"]
        rows.append(
            (
                clients,
                f"{result['throughput']:.2f}",
                f"{result['throughput'] * options.prompt:,.0f}",
                f"{result['tokensPerSecond']:,.0f}",
                f"{first['p50']:.0f}",
                f"{first['p99']:.0f}",
                f"{between['p50']:.1f}",
                f"{between['p99']:.1f}",
                f"{result['latency']['p99']:.0f}",
            )
        )
    transcript.write("")
    columns = ("clients", "requests/s", "prompt tokens/s", "words/s", "first word p50, ms", "p99")
    transcript.table((*columns, "between words p50, ms", "p99", "request p99, ms"), rows)


async def _bench(cluster: LocalCluster, options: argparse.Namespace, *load: str) -> Any:
    tokens = ("--prompt-tokens", str(options.prompt), "--max-tokens", str(options.words))
    output = ("--timeout", "5m", "-q", "-o", "json")
    return json.loads(
        await cluster.run("serve", "bench", _NAME, *_NAMESPACE, *load, *tokens, *output)
    )


async def _list_servers(cluster: LocalCluster) -> list[Any]:
    pods = await cluster.client.list(PODS, "default")
    return [each for each in pods.items if each["spec"]["containers"][0]["name"] == "server"]


async def _wait_until_idle(cluster: LocalCluster) -> None:
    for _ in range(_IDLE_SECONDS):
        if not await _list_servers(cluster):
            return
        await asyncio.sleep(1)


def _service(options: argparse.Namespace) -> dict[str, Any]:
    server: dict[str, Any] = {
        "name": "llm",
        "runtime": "ModelServer",
        "protocol": "OpenAI",
        "args": ["--llm", f"{_LLM},{options.shape}"],
        "drain": "5s",
        "autoscaling": {
            "minReplicas": 0,
            "maxReplicas": 1,
            "demand": {"inFlightPerReplica": max(_CLIENTS)},
            "scaleToZero": {"idleAfter": "1m"},
        },
    }
    if options.gpus:
        server["resources"] = {"limits": {"nvidia.com/gpu": str(options.gpus)}}
    return {
        "apiVersion": "serving.kilonova.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": _NAME, "namespace": "default"},
        "spec": {"servers": [server]},
    }
