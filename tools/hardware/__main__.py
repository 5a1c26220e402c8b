"""`python -m tools.hardware NAME [OPTIONS]`."""

import importlib
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn, cast

PROGRAMS = {
    "gpu-exporter": "the exporter's figures and those of nvidia-smi",
    "gpu-engine": "the MIG engine and MPS, beside PyTorch processes that compute all along",
    "process-node": "pods on this machine, by `kilonova up`: the whole GPU, and MIG instances",
    "inference-service": "a transformer on a GPU, served by `kilonova up` to clients",
    "transformer": "the language model on PyTorch of `kilonova serve-model`",
    "gpu-discovery": "discovery, health, measurements, and MIG by the NVML backend",
}


def main(arguments: Sequence[str]) -> int:
    """Run a program; its exit code."""
    if not arguments or arguments[0] not in PROGRAMS:
        print("usage: python -m tools.hardware NAME [OPTIONS]\n")
        for name, text in PROGRAMS.items():
            print(f"  {name:<16} {text}")
        return 0 if arguments[:1] in ([], ["--help"]) else 2
    # What a program undoes at its end, it also undoes when it is terminated.
    signal.signal(signal.SIGTERM, _raise_exit)
    module = importlib.import_module(f"tools.hardware.{arguments[0].replace('-', '_')}")
    return cast("Callable[[Sequence[str]], int]", module.main)(arguments[1:])


def _raise_exit(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(143)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
