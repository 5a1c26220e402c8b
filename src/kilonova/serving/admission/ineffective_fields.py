"""Warnings of fields that are valid and have no effect beside others. Pure."""

from collections.abc import Iterator

from kilonova.api.serving import Gateway, InferenceServiceSpec, LoadLimit

_HASHED = ("RingHash", "Maglev")


def list_warnings(spec: InferenceServiceSpec) -> Iterator[str]:
    """A warning for each of them, with what to do."""
    yield from _list_route_warnings(spec)
    yield from _list_gateway_warnings(spec.gateway)
    yield from _list_queue_warnings(spec)
    if spec.limits.load is not None:
        yield from _list_load_warnings(spec.limits.load)
    yield from _list_protocol_warnings(spec)


def _list_route_warnings(spec: InferenceServiceSpec) -> Iterator[str]:
    catch_all = next(
        (number for number, each in enumerate(spec.routes) if not each.models and not each.headers),
        None,
    )
    if catch_all is not None and catch_all + 1 < len(spec.routes):
        yield (
            f"spec.routes[{catch_all}] matches all requests: the routes after it are never used; "
            "move it to the end, or give it models or headers"
        )


def _list_gateway_warnings(gateway: Gateway) -> Iterator[str]:
    balancing = gateway.load_balancing
    if balancing.hash and balancing.policy not in _HASHED:
        yield (
            "spec.gateway.loadBalancing.hash has no effect: the policy "
            f"{balancing.policy} has no key; set RingHash or Maglev"
        )
    if gateway.static_config is None:
        return
    for field, is_set in (
        ("accessLog", gateway.access_log),
        ("loadBalancing", bool(balancing.hash) or balancing.policy != "LeastRequest"),
    ):
        if is_set:
            yield (
                f"spec.gateway.{field} has no effect: gateway.staticConfig replaces the whole "
                "configuration; do it there"
            )


def _list_queue_warnings(spec: InferenceServiceSpec) -> Iterator[str]:
    for index, group in enumerate(spec.servers):
        if group.max_queued is not None and group.max_in_flight is None:
            yield (
                f"spec.servers[{index}].maxQueued has no effect: without maxInFlight no request "
                "waits in the gateway; set it"
            )


def _list_load_warnings(load: LoadLimit) -> Iterator[str]:
    for field, is_set in (("threshold", load.threshold), ("prometheus", load.prometheus)):
        if is_set and not load.query:
            yield f"spec.limits.load.{field} has no effect without query: set it"


def _list_protocol_warnings(spec: InferenceServiceSpec) -> Iterator[str]:
    openai = {each.name for each in spec.servers if each.protocol == "OpenAI"}
    for index, group in enumerate(spec.servers):
        sla = None if group.autoscaling is None else group.autoscaling.sla
        if sla is None or group.name in openai:
            continue
        for field, value in (
            ("timeToFirstToken", sla.time_to_first_token),
            ("interTokenLatency", sla.inter_token_latency),
        ):
            if value is not None:
                yield (
                    f"spec.servers[{index}].autoscaling.sla.{field} has no effect: only servers of "
                    "the protocol OpenAI report it"
                )
    if not openai and spec.limits.tokens is not None:
        yield "spec.limits.tokens has no effect: no group has the protocol OpenAI"
