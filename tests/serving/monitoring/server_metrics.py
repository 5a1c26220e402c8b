"""Metrics of a Triton with and without GPU, and of an LLM server, in their format. Counters grow
with time."""

import contextlib
import time
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

_COUNTERS = {
    "nv_inference_request_success": 100,
    "nv_inference_request_failure": 0,
    "nv_inference_count": 400,
    "nv_inference_exec_count": 100,
    "nv_inference_request_duration_us": 900_000,
    "nv_inference_queue_duration_us": 200_000,
    "nv_inference_compute_input_duration_us": 50_000,
    "nv_inference_compute_infer_duration_us": 600_000,
    "nv_inference_compute_output_duration_us": 50_000,
}
_GPU = {
    "nv_gpu_utilization": 0.7,
    "nv_gpu_power_usage": 210.5,
    "nv_gpu_power_limit": 300.0,
    "nv_gpu_memory_used_bytes": 4e9,
    "nv_gpu_memory_total_bytes": 24e9,
}
_LLM = ("time_to_first_token_seconds", "inter_token_latency_seconds")


def render_triton(seconds: float, *, gpu: bool) -> str:
    """What Triton has counted after some time."""
    lines: list[str] = []
    for name, per_second in _COUNTERS.items():
        lines.append(f"# TYPE {name} counter")
        lines += [
            f'{name}{{model="{model}",version="1"}} {per_second * seconds:.0f}'
            for model in ("higgsInteractionNet", "deepmet")
        ]
    lines.append("# TYPE nv_inference_pending_request_count gauge")
    lines.append('nv_inference_pending_request_count{model="deepmet",version="1"} 3')
    if gpu:
        for name, value in _GPU.items():
            lines += [f"# TYPE {name} gauge", f'{name}{{gpu_uuid="GPU-1"}} {value}']
    return "\n".join(lines) + "\n"


def render_llm(seconds: float) -> str:
    """What an LLM server has counted after some time."""
    label = 'model_name="small"'
    lines = [
        f"vllm:num_requests_running{{{label}}} 4",
        f"vllm:num_requests_waiting{{{label}}} 2",
        f"vllm:prompt_tokens_total{{{label}}} {900 * seconds:.0f}",
        f"vllm:generation_tokens_total{{{label}}} {300 * seconds:.0f}",
    ]
    for name in _LLM:
        lines += [
            f'vllm:{name}_bucket{{{label},le="{bound}"}} {share * seconds:.0f}'
            for bound, share in (("0.01", 10), ("0.1", 90), ("+Inf", 100))
        ]
        lines.append(f"vllm:{name}_count{{{label}}} {100 * seconds:.0f}")
        lines.append(f"vllm:{name}_sum{{{label}}} {5 * seconds:.3f}")
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def serve_server_metrics() -> Generator[str]:
    """The address of a server that has them at /gpu, /cpu and /llm."""
    start = time.monotonic()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seconds = time.monotonic() - start
            texts = {
                "/gpu": lambda: render_triton(seconds, gpu=True),
                "/cpu": lambda: render_triton(seconds, gpu=False),
                "/llm": lambda: render_llm(seconds),
            }
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(texts[self.path]().encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
