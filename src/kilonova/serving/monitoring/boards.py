"""The dashboards: one of all that gateways and servers measure, one with the panels that users of
SuperSONIC know. Pure.

Figures of a release are sums over its pods. The number of servers is what gateways see, and so is
right for servers without GPUs.
"""

from collections.abc import Iterator

from kilonova.serving.monitoring.panels import Board, Panel, Query, ServiceMap

_SELECTED = 'release=~"$release",namespace=~"$namespace"'
_OF_SERVERS = 'server!=""'
_OF_HOLDS = 'envoy_cluster_name=~"hold/.+"'
_WINDOW = "30s"
_VARIABLES = {
    "namespace": "label_values(envoy_cluster_membership_total, namespace)",
    "release": 'label_values(envoy_cluster_membership_total{namespace=~"$namespace"}, release)',
}
_BY = "release"
_SERVICE_MAP = ServiceMap(
    "Server map",
    description="Gateways and servers as Tempo sees them in traces. Needs the metrics generator of "
    "Tempo with service graphs, and in its data source the Prometheus that has their metrics.",
)
_QUANTILES = ((0.5, "median"), (0.95, "95 %"), (0.99, "99 %"))


def build_supersonic_board(
    uid: str = "supersonic", title: str = "SuperSONIC", *, has_traces: bool = False
) -> Board:
    """The panels of SuperSONIC's dashboard: those of its variant with traces, if there are any."""
    servers = (Query(_servers(), "{{release}}"),)
    return Board(
        uid,
        title,
        ("kilonova", "serving", "supersonic"),
        (
            Panel("Number of servers", servers, width=4, height=6, stat=True),
            Panel("Number of servers", servers, width=8, height=6),
            Panel(
                "Server load metric",
                (Query(_milliseconds("queue"), "{{release}}"),),
                unit="ms",
                height=6,
                description="Time in the queue for each execution: what scaling and admission use "
                "when serverLoadMetric is empty.",
                threshold=100,
            ),
            Panel(
                "Latency breakdown",
                (
                    Query(_milliseconds("compute_infer"), "Inference {{release}}"),
                    Query(_milliseconds("queue"), "Queue {{release}}"),
                    Query(_milliseconds("compute_input"), "Input {{release}}"),
                    Query(_milliseconds("compute_output"), "Output {{release}}"),
                    Query(_proxy_milliseconds(), "Total (measured at proxy) {{release}}"),
                ),
                unit="ms",
            ),
            Panel(
                "Inferences per second",
                (Query(_rate("nv_inference_count", _BY), "{{release}}"),),
                unit="ops",
            ),
            Panel(
                "Inferences per second, by pod",
                (Query(_rate("nv_inference_count", "pod"), "{{pod}}"),),
                unit="ops",
                stacked=True,
            ),
            Panel(
                "Inferences per second, by model",
                (Query(_rate("nv_inference_count", "model"), "{{model}}"),),
                unit="ops",
                stacked=True,
            ),
            *_list_gpu_panels(),
            *((_SERVICE_MAP,) if has_traces else ()),
        ),
        _VARIABLES,
        window="3h",
    )


def build_serving_board(uid: str = "kilonova-serving", title: str = "Kilonova services") -> Board:
    """Requests, servers, latencies, refusals and tokens."""
    return Board(
        uid,
        title,
        ("kilonova", "serving"),
        (*_list_traffic_panels(), *_list_latency_panels(), *_list_llm_panels()),
        _VARIABLES,
    )


def _list_traffic_panels() -> Iterator[Panel]:
    by_group = "release,server"
    yield Panel("Servers", (Query(_servers(), "{{release}}"),), width=4, height=6, stat=True)
    yield Panel(
        "Gateways",
        (Query(f"count by (release) (envoy_server_live{{{_SELECTED}}} == 1)", "{{release}}"),),
        width=4,
        height=6,
        stat=True,
    )
    yield Panel(
        "Requests per second",
        (Query(_rate("envoy_http_downstream_rq_completed", _BY), "{{release}}"),),
        unit="reqps",
        width=8,
        height=6,
    )
    failed = 'envoy_response_code_class="5"'
    yield Panel(
        "Failed and refused requests per second",
        (
            Query(_rate("envoy_http_downstream_rq_xx", _BY, failed), "5xx {{release}}"),
            Query(
                _rate("envoy_cluster_upstream_rq_pending_overflow", _BY), "queue full {{release}}"
            ),
            Query(_rate("envoy_cluster_upstream_rq_retry", _BY), "retried {{release}}"),
        ),
        unit="reqps",
        width=8,
        height=6,
    )
    yield Panel(
        "Requests in flight",
        (
            Query(
                f"sum by ({by_group}) (envoy_cluster_upstream_rq_active"
                f"{{{_OF_SERVERS},{_SELECTED}}})",
                "at servers {{release}} {{server}}",
            ),
            Query(
                f"sum by ({by_group}) (envoy_cluster_upstream_rq_pending_active"
                f"{{{_OF_SERVERS},{_SELECTED}}})",
                "waiting {{release}} {{server}}",
            ),
            Query(
                f"sum by (release) (envoy_cluster_upstream_rq_active{{{_OF_HOLDS},{_SELECTED}}})",
                "held {{release}}",
            ),
        ),
    )
    yield Panel(
        "Healthy servers",
        (
            Query(
                f"max by ({by_group}) (envoy_cluster_membership_healthy"
                f"{{{_OF_SERVERS},{_SELECTED}}})",
                "{{release}} {{server}}",
            ),
            Query(
                f"sum by ({by_group}) (envoy_cluster_outlier_detection_ejections_active"
                f"{{{_OF_SERVERS},{_SELECTED}}})",
                "left out {{release}} {{server}}",
            ),
        ),
    )


def _list_latency_panels() -> Iterator[Panel]:
    yield Panel(
        "Latency at the gateway",
        tuple(
            Query(
                f"histogram_quantile({share}, sum by (release,le) "
                f"(rate(envoy_http_downstream_rq_time_bucket{{{_SELECTED}}}[{_WINDOW}])))",
                f"{name} {{{{release}}}}",
            )
            for share, name in _QUANTILES
        ),
        unit="ms",
    )
    yield Panel(
        "Time at servers of v2, for each execution",
        (
            Query(_milliseconds("compute_infer"), "inference {{release}}"),
            Query(_milliseconds("queue"), "queue {{release}}"),
            Query(_milliseconds("compute_input"), "input {{release}}"),
            Query(_milliseconds("compute_output"), "output {{release}}"),
        ),
        unit="ms",
        stacked=True,
    )
    yield Panel(
        "Inferences per second, by model",
        (Query(_rate("nv_inference_count", "release,model"), "{{release}} {{model}}"),),
        unit="ops",
        stacked=True,
    )
    yield Panel(
        "Requests in the queues of servers",
        (
            Query(
                f"sum by (release) (nv_inference_pending_request_count{{{_SELECTED}}})",
                "{{release}}",
            ),
        ),
    )


def _list_llm_panels() -> Iterator[Panel]:
    yield Panel(
        "Tokens per second",
        (
            Query(_rate("vllm:generation_tokens_total", _BY), "generated {{release}}"),
            Query(_rate("vllm:prompt_tokens_total", _BY), "prompts {{release}}"),
        ),
    )
    for metric, title in (
        ("time_to_first_token", "Time to first token"),
        ("inter_token_latency", "Time between tokens"),
    ):
        yield Panel(
            title,
            tuple(
                Query(
                    f"histogram_quantile({share}, sum by (release,le) "
                    f"(rate(vllm:{metric}_seconds_bucket{{{_SELECTED}}}[{_WINDOW}])))",
                    f"{name} {{{{release}}}}",
                )
                for share, name in _QUANTILES
            ),
            unit="s",
        )
    yield Panel(
        "Sequences at LLM servers",
        (
            Query(f"sum by (release) (vllm:num_requests_running{{{_SELECTED}}})", "running"),
            Query(f"sum by (release) (vllm:num_requests_waiting{{{_SELECTED}}})", "waiting"),
        ),
    )


def _list_gpu_panels() -> Iterator[Panel]:
    by = "release,pod,gpu_uuid"
    legend = "{{pod}} {{gpu_uuid}}"
    for title, metric, of, unit in (
        ("GPU utilization", "nv_gpu_utilization", "", "percentunit"),
        ("GPU power, of the limit", "nv_gpu_power_usage", "nv_gpu_power_limit", "percentunit"),
        (
            "GPU memory, of all",
            "nv_gpu_memory_used_bytes",
            "nv_gpu_memory_total_bytes",
            "percentunit",
        ),
    ):
        expression = f"sum by ({by}) ({metric}{{{_SELECTED}}})"
        if of:
            expression += f" / sum by ({by}) ({of}{{{_SELECTED}}})"
        yield Panel(title, (Query(expression, legend),), unit=unit, width=8)


def _servers() -> str:
    """Gateways see the same servers: the greatest of their numbers, summed over groups."""
    healthy = f"envoy_cluster_membership_healthy{{{_OF_SERVERS},{_SELECTED}}}"
    return f"sum by (release) (max by (release,namespace,server) ({healthy}))"


def _rate(metric: str, by: str, *matchers: str) -> str:
    selected = ",".join((*matchers, _SELECTED))
    return f"sum by ({by}) (rate({metric}{{{selected}}}[{_WINDOW}]))"


def _milliseconds(stage: str) -> str:
    """Milliseconds of a stage for each execution."""
    stages = _rate(f"nv_inference_{stage}_duration_us", _BY)
    return f"{stages} / 1000 / ({_rate('nv_inference_exec_count', _BY)} > 0)"


def _proxy_milliseconds() -> str:
    total = _rate("envoy_http_downstream_rq_time_sum", _BY)
    return f"{total} / ({_rate('envoy_http_downstream_rq_time_count', _BY)} > 0)"
