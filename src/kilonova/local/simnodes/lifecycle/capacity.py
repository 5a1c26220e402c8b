"""Which machines can be launched: rules of the ConfigMap `simulated-capacity`. Pure.

    apiVersion: v1
    kind: ConfigMap
    metadata: {name: simulated-capacity, namespace: kube-system}
    data:
      rules: |
        - {machine: p5.48xlarge, zone: zone-a, limit: 2}
        - {market: spot, zone: zone-b, until: "2026-11-18T16:00:00Z"}

A rule applies to machines of its type, zone and market; a field that it lacks means any. At most
`limit` such machines (0 by default) exist at a time, until `until` if it is given: a further one
fails with InsufficientCapacity. Without a rule everything can be launched.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
import yaml

from kilonova.api.json import JsonObject
from kilonova.api.times import add_seconds, format_rfc3339, parse_time
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.apimachinery.unstructured import nested_object
from kilonova.local.simnodes.fleet.model import FleetCapacityRule, parse_seconds

CONFIG_MAPS = unstructured_resource("", "v1", "configmaps", "ConfigMap", True)
CAPACITY_NAMESPACE = "kube-system"
CAPACITY_NAME = "simulated-capacity"
_RULES_KEY = "rules"


class CapacityRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """At most so many machines of a type, in a zone, on a market."""

    machine: str = ""
    zone: str = ""
    market: str = ""
    limit: int = 0
    until: str = ""


@dataclass(frozen=True, slots=True)
class MachineRequest:
    """What is requested of the capacity. Without a market a machine is on demand."""

    machine: str
    zone: str
    market: str = "on-demand"

    def __str__(self) -> str:
        return f"{self.market} {self.machine or 'machine'} in {self.zone}"


class InvalidRules(Exception):
    """The ConfigMap is invalid: field, value and fix."""


def parse_rules(config_map: JsonObject) -> tuple[CapacityRule, ...]:
    """The rules of the ConfigMap; `InvalidRules` if they cannot be read."""
    text = nested_object(config_map, "data").get(_RULES_KEY, "")
    where = f"ConfigMap {CAPACITY_NAMESPACE}/{CAPACITY_NAME}: {_RULES_KEY}"
    try:
        source: Any = yaml.safe_load(text) or []
        rules = msgspec.convert(source, tuple[CapacityRule, ...])
    except yaml.YAMLError as error:
        raise InvalidRules(f"{where}: not YAML: {str(error).splitlines()[0]}") from None
    except msgspec.ValidationError as error:
        fields = ", ".join(each.encode_name for each in msgspec.structs.fields(CapacityRule))
        raise InvalidRules(f"{where}: {error}: write a list of rules with {fields}") from None
    for number, rule in enumerate(rules):
        try:
            if rule.until:
                parse_time(rule.until)
        except ValueError:
            raise InvalidRules(
                f'{where}[{number}].until: "{rule.until}" is not a time: '
                "write one such as 2026-11-18T16:00:00Z"
            ) from None
    return rules


def build_config_map(rules: Iterable[FleetCapacityRule], now: datetime) -> JsonObject:
    """The ConfigMap with the rules of a fleet file, whose durations begin now."""
    listed = [
        msgspec.to_builtins(
            CapacityRule(
                rule.machine,
                rule.zone,
                rule.market,
                rule.limit,
                format_rfc3339(add_seconds(now, parse_seconds(rule.duration)))
                if rule.duration
                else "",
            )
        )
        for rule in rules
    ]
    return {
        "metadata": {"name": CAPACITY_NAME, "namespace": CAPACITY_NAMESPACE},
        "data": {_RULES_KEY: yaml.safe_dump(listed, sort_keys=False)},
    }


def find_exceeded_rule(
    rules: Iterable[CapacityRule],
    request: MachineRequest,
    launched: Iterable[MachineRequest],
    now: datetime,
) -> CapacityRule | None:
    """The rule because of which a machine cannot be launched beside the launched ones."""
    others = list(launched)
    for rule in rules:
        if not _applies(rule, request) or (rule.until and parse_time(rule.until) <= now):
            continue
        if sum(_applies(rule, each) for each in others) >= rule.limit:
            return rule
    return None


def _applies(rule: CapacityRule, request: MachineRequest) -> bool:
    return (
        rule.machine in ("", request.machine)
        and rule.zone in ("", request.zone)
        and rule.market in ("", request.market)
    )
