"""A program that speaks like `nvidia-cuda-mps-control` (interface version 2).

With `-d` it starts a daemon: a process that does nothing, its pid in the pipe directory, as the
real one has it. Otherwise it reads commands. Servers and clients are those of `state.json` there,
which tests write.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

PIPE = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
PID_FILE = PIPE / "nvidia-cuda-mps-control.pid"
STATE = PIPE / "state.json"


def is_alive() -> bool:
    try:
        pid = int(PID_FILE.read_text())
        status = Path(f"/proc/{pid}/stat").read_text()
    except (OSError, ValueError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def start() -> int:
    if os.environ.get("FAKE_MPS_START") == "fails":
        print("Failed to start", file=sys.stderr)
        return 1
    if is_alive():
        print("An instance of this daemon is already running")
        return 1
    daemon = subprocess.Popen(
        ["sleep", "600"],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    PID_FILE.write_text(str(daemon.pid))
    device = os.environ["CUDA_VISIBLE_DEVICES"]
    STATE.write_text(
        json.dumps({"device": device, "threads": 100.0, "memory": None, "servers": {}, "log": []})
    )
    return 0


def answer(words: list[str], state: dict) -> str:
    name, *rest = words
    servers = state["servers"]
    state["log"].append(" ".join(words))
    if (
        name.startswith(
            ("get_client", "get_server_status", "set_active", "set_device", "terminate")
        )
        and rest[0] not in servers
    ):
        return "Server not found"
    if name == "get_server_list":
        return "\n".join(servers)
    if name == "get_server_status":
        return servers[rest[0]]["status"]
    if name == "get_client_list":
        return "\n".join(map(str, servers[rest[0]]["clients"]))
    if name == "get_default_active_thread_percentage":
        return str(state["threads"])
    if name == "set_default_active_thread_percentage":
        state["threads"] = float(rest[0])
        return str(state["threads"])
    if name == "set_active_thread_percentage":
        servers[rest[0]]["threads"] = float(rest[1])
        return rest[1]
    if name == "set_default_device_pinned_mem_limit":
        state["memory"] = rest[1]
        return ""
    if name == "set_device_pinned_mem_limit":
        servers[rest[0]]["memory"] = rest[2]
        return ""
    if name == "terminate_client":
        clients = servers[rest[0]]["clients"]
        if int(rest[1]) not in clients:
            return "Error: invalid client PID"
        clients.remove(int(rest[1]))
        return ""
    return f"Unrecognized command: {name}"


def main() -> int:
    if sys.argv[1:] == ["-d"]:
        return start()
    if not is_alive():
        pid_file = PID_FILE
        print(f"Cannot find MPS control daemon process (see {pid_file})", file=sys.stderr)
        return 1
    for line in sys.stdin:
        words = line.split()
        if words == ["quit"]:
            os.kill(int(PID_FILE.read_text()), 15)
            PID_FILE.unlink()
            return 0
        state = json.loads(STATE.read_text())
        text = answer(words, state)
        STATE.write_text(json.dumps(state))
        if text.startswith(("Server not found", "Unrecognized")):
            print(text, file=sys.stderr)
            return 1
        if text:
            print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
