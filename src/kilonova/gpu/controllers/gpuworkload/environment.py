"""Environment variables by which the processes of a workload find each other. Pure.

Every pod of a distributed workload gets

- `MASTER_ADDR`, `MASTER_PORT`, `WORLD_SIZE`, `RANK`, `LOCAL_RANK`, as torch.distributed and
  DeepSpeed read them. RANK is that of the pod's first process: with one process in each pod it is
  complete; a launcher of several processes (torchrun) sets it for each of them.
- `PET_*`, the defaults of torchrun's arguments, and `NNODES`, `NODE_RANK`, `NPROC_PER_NODE`.
- `TF_CONFIG` for TensorFlow; `JAX_COORDINATOR_ADDRESS`, `JAX_NUM_PROCESSES` and `JAX_PROCESS_ID`
  for JAX.
- `NCCL_*` with the backend NCCL: what the requirements on topology imply.

Variables of the pod template take precedence, except for ranks, which differ from pod to pod.
"""

from collections.abc import Iterator

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.kgwe import DistributedConfig, GPUWorkload, names
from kilonova.api.kgwe.gpuworkload import DEFAULT_MASTER_PORT
from kilonova.gpu.controllers.gpuworkload.split import Split

_LOCAL_HOST = "127.0.0.1"
_P2P_LEVELS = {"NVLinkRequired": "NVL", "SamePCIeSwitch": "PXB", "SameNUMA": "PHB"}
"""Over which connections NCCL copies directly: at most over those that are asked for. A preference
that need not be met (NVLinkOptimal) restricts nothing."""
_RANKS = frozenset(
    {
        "RANK",
        "LOCAL_RANK",
        "NODE_RANK",
        "PET_NODE_RANK",
        "JAX_PROCESS_ID",
        "TF_CONFIG",
    }
)


def is_distributed(workload: GPUWorkload, split: Split) -> bool:
    """Whether processes of the workload have to find each other."""
    return split.pods > 1 or workload.spec.distributed_config is not None


def needs_service(split: Split) -> bool:
    """Whether pods have to find each other."""
    return split.pods > 1


def build_environment(workload: GPUWorkload, split: Split, rank: int) -> list[JsonObject]:
    """The variables of a pod; `rank` is the pod's."""
    if not is_distributed(workload, split):
        return []
    variables = {
        **dict(_list_rendezvous(workload, split, rank)),
        **dict(_list_framework_variables(workload, split, rank)),
        **dict(_list_nccl_hints(workload, split)),
    }
    return [{"name": name, "value": value} for name, value in variables.items()]


def with_environment(container: JsonObject, variables: list[JsonObject]) -> JsonObject:
    """A container with variables before its own, so that its own may refer to them."""
    own: list[JsonObject] = [
        each for each in container.get("env") or () if each.get("name") not in _RANKS
    ]
    named = {each.get("name") for each in own}
    added = [each for each in variables if each["name"] not in named]
    return {**container, "env": [*added, *own]} if added else container


def _list_rendezvous(workload: GPUWorkload, split: Split, rank: int) -> Iterator[tuple[str, str]]:
    address, port = _get_master(workload, split)
    processes = str(split.processes)
    yield "MASTER_ADDR", address
    yield "MASTER_PORT", port
    yield "WORLD_SIZE", str(split.world_size)
    yield "RANK", str(rank * split.processes)
    yield "LOCAL_RANK", "0"
    yield "LOCAL_WORLD_SIZE", processes
    yield "NNODES", str(split.pods)
    yield "NODE_RANK", str(rank)
    yield "NPROC_PER_NODE", processes
    yield "PET_NNODES", str(split.pods)
    yield "PET_NODE_RANK", str(rank)
    yield "PET_NPROC_PER_NODE", processes
    yield "PET_MASTER_ADDR", address
    yield "PET_MASTER_PORT", port
    config = workload.spec.distributed_config or DistributedConfig()
    yield "KGWE_BACKEND", config.backend
    if config.strategy is not None:
        yield "KGWE_STRATEGY", config.strategy


def _get_master(workload: GPUWorkload, split: Split) -> tuple[str, str]:
    config, known = workload.spec.distributed_config, workload.metadata
    port = DEFAULT_MASTER_PORT if config is None else config.master_port or DEFAULT_MASTER_PORT
    if config is not None and config.master_addr:
        return config.master_addr, str(port)
    if split.pods == 1:
        return _LOCAL_HOST, str(port)
    return names.service_address(known.name, 0, known.namespace), str(port)


def _list_framework_variables(
    workload: GPUWorkload, split: Split, rank: int
) -> Iterator[tuple[str, str]]:
    address, port = _get_master(workload, split)
    known = workload.metadata
    match workload.spec.framework:
        case "TensorFlow":
            workers = [
                names.service_address(known.name, each, known.namespace)
                if split.pods > 1
                else _LOCAL_HOST
                for each in range(split.pods)
            ]
            config = {
                "cluster": {"worker": [f"{each}:{port}" for each in workers]},
                "task": {"type": "worker", "index": rank},
            }
            yield "TF_CONFIG", msgspec.json.encode(config).decode()
        case "JAX":
            yield "JAX_COORDINATOR_ADDRESS", f"{address}:{port}"
            yield "JAX_NUM_PROCESSES", str(split.world_size)
            yield "JAX_PROCESS_ID", str(rank * split.processes)
        case _:
            return


def _list_nccl_hints(workload: GPUWorkload, split: Split) -> Iterator[tuple[str, str]]:
    requirements, config = workload.spec.gpu_requirements, workload.spec.distributed_config
    if config is not None and config.backend != "NCCL":
        return
    if requirements.profile:
        # MIG instances have no peer-to-peer access.
        yield "NCCL_P2P_DISABLE", "1"
    elif split.gpus > 1 and (level := _P2P_LEVELS.get(requirements.preference)) is not None:
        yield "NCCL_P2P_LEVEL", level
    if split.pods > 1 and requirements.preference == "NVLinkRequired":
        # Only multi-node NVLink connects the pods.
        yield "NCCL_MNNVL_ENABLE", "1"
