"""The process node with a real GPU: pods compute on the scheduler's choice.

`python -m tools.hardware process-node [--out FILE]` starts `kilonova up` twice: with the whole GPU,
then with MIG instances that it made before.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kilonova.api.gpu.annotations import DEVICES
from kilonova.gpu.devices.errors import GpuError
from kilonova.gpu.devices.model import Device
from kilonova.kube import Client, unstructured_resource
from tools.hardware.local_cluster import start_cluster
from tools.hardware.restoration import is_untouched, restore_device
from tools.hardware.rig import Rig, open_rig
from tools.hardware.transcript import Transcript

PODS = unstructured_resource("", "v1", "pods", "Pod", True)
NODES = unstructured_resource("", "v1", "nodes", "Node", False)
_SECONDS = 120
_PROGRAM = """
import json, os, torch
seen = {"visible": os.environ.get("CUDA_VISIBLE_DEVICES"), "cuda": torch.cuda.is_available()}
if seen["cuda"]:
    matrix = torch.ones(1024, 1024, device="cuda")
    seen |= {"name": torch.cuda.get_device_name(0), "sum": float((matrix @ matrix).sum()),
             "sms": torch.cuda.get_device_properties(0).multi_processor_count}
print(json.dumps(seen))
"""
_SUM = 1024.0**3


def main(arguments: Sequence[str]) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(prog="python -m tools.hardware process-node")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the transcript here, too")
    options = parser.parse_args(arguments)
    transcript = Transcript(options.out)
    transcript.write("# The process node with a real GPU", "")
    transcript.write("`python -m tools.hardware process-node`", "")
    with open_rig() as rig:
        devices = [each for each in rig.backend.read_inventory().devices if each.geometry]
        free = [each for each in devices if is_untouched(each)]
        if not free:
            transcript.check("there is a GPU with MIG support that nothing uses", False)
            return transcript.summary()
        try:
            asyncio.run(_run_all(rig, transcript, free[0]))
        except (GpuError, subprocess.SubprocessError) as error:
            transcript.check("nothing fails unexpectedly", False, str(error))
        finally:
            transcript.heading("Restored")
            restore_device(rig, transcript, free[0].uuid)
    return transcript.summary()


async def _run_all(rig: Rig, transcript: Transcript, device: Device) -> None:
    transcript.heading("The whole GPU")
    async with start_cluster() as cluster:
        client = cluster.client
        await _describe_node(transcript, client)
        seen = await _run_pod(client, "whole", {"nvidia.com/gpu": "1"})
        transcript.write(f"- whole: {seen}")
        transcript.check("the pod computes on the GPU that was assigned", _computed(seen, "0"))
        seen = await _run_pod(client, "none", {})
        transcript.write(f"- none: {seen}")
        transcript.check("a pod that requests none sees none", not seen.get("cuda", True))
    transcript.heading("MIG instances")
    rig.backend.set_mig_mode(device.uuid, True)
    instances = [
        rig.backend.create_instance(device.uuid, _profile_of(device, compute), start)
        for compute, start in ((2, 4), (1, 6))
    ]
    async with start_cluster() as cluster:
        client = cluster.client
        allocatable = await _describe_node(transcript, client)
        transcript.check(
            "the whole GPU is not offered", allocatable.get("nvidia.com/gpu", "0") == "0"
        )
        for each in instances:
            seen = await _run_pod(
                client, f"slice-{each.start}", {f"nvidia.com/mig-{each.profile}": "1"}
            )
            transcript.write(f"- {each.profile}: {seen}")
            transcript.check(
                f"the pod computes on its instance {each.profile}@{each.start}",
                _computed(seen, f"0:{each.profile}@{each.start}")
                and seen.get("visible") == each.uuid,
            )


async def _describe_node(transcript: Transcript, client: Client) -> dict[str, str]:
    """What the Node says of its GPUs; its allocatable resources."""
    (node,) = (await client.list(NODES)).items
    allocatable: dict[str, str] = node["status"]["allocatable"]
    gpus = {name: text for name, text in allocatable.items() if name.startswith("nvidia.com/")}
    labels = {
        name: text
        for name, text in node["metadata"]["labels"].items()
        if name.startswith(("nvidia.com/gpu.", "nvidia.com/mig"))
    }
    transcript.write(f"- allocatable: {gpus}", f"- labels: {labels}")
    return allocatable


async def _run_pod(client: Client, name: str, limits: dict[str, str]) -> dict[str, Any]:
    """Run a pod to its end; what it printed, and the devices that it was assigned."""
    pod = {
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "schedulerName": "kilonova-scheduler",
            "nodeSelector": {"kilonova.dev/node-kind": "process"},
            "containers": [
                {
                    "name": "main",
                    "image": "torch",
                    "command": [sys.executable, "-c", _PROGRAM],
                    "resources": {"limits": limits},
                }
            ],
        },
    }
    await client.create(PODS, pod, "default")
    found: Any = None
    for _ in range(_SECONDS * 2):
        found = await client.get(PODS, name, "default")
        if found["status"].get("phase") in ("Succeeded", "Failed"):
            break
        await asyncio.sleep(0.5)
    text = b"".join([chunk async for chunk in client.logs(name, "default")])
    last = text.decode(errors="replace").strip().splitlines()[-1:] or ["{}"]
    seen: dict[str, Any] = json.loads(last[0]) if last[0].startswith("{") else {"log": last[0]}
    assigned = found["metadata"].get("annotations", {}).get(DEVICES, "")
    return {**seen, "assigned": assigned, "phase": found["status"].get("phase")}


def _computed(seen: dict[str, Any], assigned: str) -> bool:
    return seen.get("sum") == _SUM and seen["assigned"] == assigned


def _profile_of(device: Device, compute: int) -> str:
    """The plain profile with so many compute slices."""
    assert device.geometry is not None
    found = [each for each in device.geometry.profiles if each.compute == compute]
    return min(found, key=lambda each: (each.slices, each.extended)).name
