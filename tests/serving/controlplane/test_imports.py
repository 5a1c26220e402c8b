"""What a process loads that has no service yet."""

import subprocess
import sys

_LATE = ("grpc", "google.protobuf", "envoy", "aiohttp")


def test_control_plane_is_built_without_grpc() -> None:
    program = "import sys, kilonova.serving.controlplane; print(*sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "kilonova.serving.controlplane.assembly" in output
    assert [name for name in _LATE if name in output] == []
