"""What a fleet file may contain: every problem names the field, the value found, and a valid
value."""

from collections.abc import Iterator

from kilonova.api.quantity import parse_quantity
from kilonova.catalog.prices import MAX_PRICE
from kilonova.local.apimachinery.names import (
    dns_subdomain_error,
    label_value_error,
    qualified_name_error,
)
from kilonova.local.simnodes.fleet.model import (
    FailureRates,
    Fleet,
    FleetCapacityRule,
    NodeGroup,
    QuantityText,
    ScriptStep,
    iter_fleet_nodes,
    parse_delay,
    parse_seconds,
)
from kilonova.local.simnodes.objects import MAX_NODES, MAX_PODS


def iter_fleet_problems(fleet: Fleet) -> Iterator[str]:
    """What is wrong with a fleet: field, value, and a valid value. The first is what counts."""
    yield from _fleet_problems(fleet)
    yield from _script_problems(fleet)


def _fleet_problems(fleet: Fleet) -> Iterator[str]:
    if fleet.heartbeat is not None:
        yield from _duration_problems("heartbeat", fleet.heartbeat)
    total = sum(group.count for group in fleet.nodes)
    if total > MAX_NODES:
        yield f"nodes: {total} nodes exceed the maximum of {MAX_NODES}"
    seen: set[str] = set()
    for number, group in enumerate(fleet.nodes):
        where = f"nodes[{number}]"
        if group.name in seen:
            yield f'{where}.name: "{group.name}" is used twice: group names must be unique'
        seen.add(group.name)
        yield from _group_problems(where, group)
    zones = fleet.zone_failures
    if zones.mtbf:
        yield from _duration_problems("zoneFailures.mtbf", zones.mtbf)
    yield from _duration_problems("zoneFailures.outage", zones.outage)
    for number, rule in enumerate(fleet.capacity):
        yield from _capacity_problems(f"capacity[{number}]", rule)


def _capacity_problems(where: str, rule: FleetCapacityRule) -> Iterator[str]:
    if rule.limit < 0:
        yield f"{where}.limit: {rule.limit} is too small: write 0 or more"
    if rule.duration:
        yield from _duration_problems(f"{where}.for", rule.duration)


def _script_problems(fleet: Fleet) -> Iterator[str]:
    """Called once the groups are known to be valid."""
    gpus = {
        shape.name: shape.group.gpu.count if shape.group.gpu else 0
        for shape in iter_fleet_nodes(fleet)
    }
    zones = {zone for group in fleet.nodes for zone in group.zones}
    for number, step in enumerate(fleet.script):
        where = f"script[{number}]"
        yield from _duration_problems(f"{where}.after", step.after, allow_zero=True)
        if step.duration:
            yield from _duration_problems(f"{where}.for", step.duration)
        if problem := _target_problem(step, gpus, zones):
            yield f'{where}.target: "{step.target}" {problem}'


def _target_problem(step: ScriptStep, gpus: dict[str, int], zones: set[str]) -> str:
    node, slash, gpu = step.target.partition("/")
    match step.action:
        case "zone-outage":
            return (
                ""
                if step.target in zones
                else f"is not a zone: choose from {', '.join(sorted(zones))}"
            )
        case "gpu-lost" | "xid":
            if not slash or not gpu.isdecimal() or int(gpu) >= gpus.get(node, 0):
                return "is not a GPU of a node: write NODE/INDEX, such as h100-0/3"
            return ""
        case "pull-errors":
            choices = step.target in zones or step.target in gpus
            return (
                ""
                if choices
                else "is neither a node nor a zone: write a name such as h100-0 or zone-a"
            )
        case "node-outage" | "drain" | "interruption":
            return (
                ""
                if step.target in gpus
                else "is not a node of this fleet: write a name such as h100-0"
            )


def _group_problems(where: str, group: NodeGroup) -> Iterator[str]:
    last = f"{group.name}-{max(0, group.count - 1)}"
    if reason := dns_subdomain_error(group.name) or label_value_error(last):
        yield f'{where}.name: "{group.name}": {reason}'
    if group.count < 0:
        yield f"{where}.count: {group.count} is too small: write 0 or more"
    if not 0 < group.pods <= MAX_PODS:
        yield f"{where}.pods: {group.pods} is not between 1 and {MAX_PODS}"
    yield from _layout_problems(where, group)
    if group.gpu is not None:
        if not 0 < group.gpu.count <= 256:
            yield f"{where}.gpu.count: {group.gpu.count} is not between 1 and 256"
        if not group.gpu.model or label_value_error(group.gpu.model):
            yield (
                f'{where}.gpu.model: "{group.gpu.model}" is not a label value: '
                "write letters, digits, '-', '_' and '.', such as NVIDIA-H100-80GB-HBM3"
            )
        yield from _quantity_problems(f"{where}.gpu.memory", group.gpu.memory)
    for field in ("cpu", "memory", "storage"):
        yield from _quantity_problems(f"{where}.{field}", getattr(group, field))
    yield from _label_problems(where, group)
    if group.pull:
        yield from _delay_problems(f"{where}.pull", group.pull)
    if group.boot:
        yield from _delay_problems(f"{where}.boot", group.boot)
    if group.price is not None and not 0 <= group.price <= MAX_PRICE:
        yield f"{where}.price: {group.price} is not between 0 and {MAX_PRICE:,.0f}"
    for field in ("start", "stop"):
        yield from _delay_problems(f"{where}.{field}", getattr(group, field))
    yield from _failure_problems(f"{where}.failures", group.failures)


def _layout_problems(where: str, group: NodeGroup) -> Iterator[str]:
    if not group.zones:
        yield f"{where}.zones: [] is empty: name at least one zone"
        return
    for zone in group.zones:
        if not zone or label_value_error(zone):
            yield f'{where}.zones: "{zone}" is not a label value: write a value such as zone-a'
    if group.block_count < len(group.zones):
        yield (
            f"{where}.blocks: {group.block_count} is fewer than the {len(group.zones)} zones: "
            "every zone needs at least one block"
        )
    if group.rack_count < group.block_count:
        yield (
            f"{where}.racks: {group.rack_count} is fewer than the {group.block_count} blocks: "
            "every block needs at least one rack"
        )


def _label_problems(where: str, group: NodeGroup) -> Iterator[str]:
    for key, value in group.labels.items():
        if reason := qualified_name_error(key):
            yield f'{where}.labels: "{key}": {reason}'
        if reason := label_value_error(value):
            yield f'{where}.labels.{key}: "{value}": {reason}'
    for number, taint in enumerate(group.taints):
        if reason := qualified_name_error(taint.key):
            yield f'{where}.taints[{number}].key: "{taint.key}": {reason}'
        if reason := label_value_error(taint.value):
            yield f'{where}.taints[{number}].value: "{taint.value}": {reason}'


def _failure_problems(where: str, failures: FailureRates) -> Iterator[str]:
    for field, share in (("podStart", failures.pod_start), ("imagePull", failures.image_pull)):
        if not 0 <= share <= 1:
            yield f"{where}.{field}: {share} is not between 0 and 1"
    durations = {
        "podMTBF": failures.pod_mtbf,
        "nodeMTBF": failures.node_mtbf,
        "gpuMTBF": failures.gpu_mtbf,
        "xidInterval": failures.xid_interval,
        "interruptionMTBF": failures.interruption_mtbf,
    }
    for field, text in durations.items():
        if text:
            yield from _duration_problems(f"{where}.{field}", text)
    yield from _duration_problems(f"{where}.outage", failures.outage)
    yield from _duration_problems(f"{where}.gpuOutage", failures.gpu_outage)
    yield from _duration_problems(
        f"{where}.interruptionNotice", failures.interruption_notice, allow_zero=True
    )


def _duration_problems(field: str, text: str, *, allow_zero: bool = False) -> Iterator[str]:
    try:
        if not parse_seconds(text) and not allow_zero:
            yield f'{field}: "{text}" must be greater than zero: write 500ms, 2s, 5m or 1h'
    except ValueError as error:
        yield f"{field}: {error}"


def _delay_problems(field: str, text: str) -> Iterator[str]:
    try:
        parse_delay(text)
    except ValueError as error:
        yield f"{field}: {error}"


def _quantity_problems(field: str, amount: QuantityText) -> Iterator[str]:
    try:
        if parse_quantity(str(amount)).nano < 0:
            yield f'{field}: "{amount}" is negative: write 64, 512Gi or 1Ti'
    except ValueError as error:
        yield f'{field}: "{amount}" is not a quantity ({error}): write 64, 512Gi or 1Ti'
