"""Reading and writing mig-parted's files, version v1, in YAML or JSON."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import cast

import msgspec
import yaml

VERSION = "v1"
ALL = "all"

_PROFILE = re.compile(r"\d+g\.\d+gb(?:[+-][a-z]+(?:\.[a-z]+)*)?", re.ASCII)
_FIELDS = ("device-filter", "devices", "mig-enabled", "mig-devices")


class InvalidConfigFile(ValueError):
    """A file that cannot be read: which field, and why."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")


class ConfigRule(msgspec.Struct, frozen=True):
    """Which devices a rule is for, and what they should have."""

    mig_enabled: bool
    mig_devices: tuple[tuple[str, int], ...] = ()
    """Profiles and their numbers."""
    device_filter: tuple[int, ...] = ()
    """PCI device ids, `0x233010DE`; without any, all."""
    devices: tuple[int, ...] | None = None
    """Indices of devices; None is all."""

    @property
    def counts(self) -> Counter[str]:
        """The numbers of instances by profile."""
        return Counter(dict(self.mig_devices))


ConfigFile = Mapping[str, Sequence[ConfigRule]]
"""The configs of a file, by name."""


def parse_config_file(text: str) -> ConfigFile:
    """The configs of a file; `InvalidConfigFile` names what is wrong with it."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidConfigFile("file", str(error)) from error
    content = _as_mapping(document, "file")
    for name in content:
        if name not in ("version", "mig-configs"):
            raise InvalidConfigFile(name, "unknown field; known are version and mig-configs")
    if content.get("version") != VERSION:
        raise InvalidConfigFile(
            "version", f"{content.get('version')!r} is not supported; write version: {VERSION}"
        )
    configs = _as_mapping(content.get("mig-configs"), "mig-configs")
    if not configs:
        raise InvalidConfigFile("mig-configs", "at least one config is required")
    return {name: _parse_rules(rules, f"mig-configs.{name}") for name, rules in configs.items()}


def format_config_file(configs: ConfigFile) -> str:
    """The file as mig-parted writes it."""
    lines = [f"version: {VERSION}", "mig-configs:"]
    for name, rules in configs.items():
        lines.append(f"  {name}:")
        for rule in rules:
            fields = _format_rule(rule)
            lines.append(f"  - {fields[0]}")
            lines += [f"    {field}" for field in fields[1:]]
    return "\n".join(lines) + "\n"


def _format_rule(rule: ConfigRule) -> list[str]:
    fields: list[str] = []
    if rule.device_filter:
        fields.append(f"device-filter: [{', '.join(map(format_pci_id, rule.device_filter))}]")
    devices = ALL if rule.devices is None else f"[{', '.join(map(str, rule.devices))}]"
    fields += [f"devices: {devices}", f"mig-enabled: {str(rule.mig_enabled).lower()}"]
    if rule.mig_enabled and not rule.mig_devices:
        fields.append("mig-devices: {}")
    elif rule.mig_devices:
        fields.append("mig-devices:")
        fields += [f'  "{name}": {count}' for name, count in rule.mig_devices]
    return fields


def format_pci_id(pci_id: int) -> str:
    """A PCI device id as in a device filter, quoted."""
    return f'"0x{pci_id:08X}"'


def _parse_rules(value: object, where: str) -> tuple[ConfigRule, ...]:
    if not isinstance(value, list) or not value:
        raise InvalidConfigFile(where, "must be a list of at least one rule")
    rules = cast("list[object]", value)
    return tuple(_parse_rule(rule, f"{where}[{number}]") for number, rule in enumerate(rules))


def _parse_rule(value: object, where: str) -> ConfigRule:
    rule = _as_mapping(value, where)
    for name in rule:
        if name not in _FIELDS:
            raise InvalidConfigFile(f"{where}.{name}", f"unknown; known are {', '.join(_FIELDS)}")
    for name in ("devices", "mig-enabled"):
        if name not in rule:
            raise InvalidConfigFile(f"{where}.{name}", "is required")
    enabled = rule["mig-enabled"]
    if not isinstance(enabled, bool):
        raise InvalidConfigFile(f"{where}.mig-enabled", f"{enabled!r} is neither true nor false")
    if enabled and rule.get("mig-devices") is None:
        raise InvalidConfigFile(
            f"{where}.mig-devices", "is required where mig-enabled is true; {} is none"
        )
    instances = _parse_instances(rule.get("mig-devices"), f"{where}.mig-devices")
    if instances and not enabled:
        raise InvalidConfigFile(f"{where}.mig-devices", "needs mig-enabled: true")
    return ConfigRule(
        enabled,
        instances,
        _parse_filter(rule.get("device-filter"), f"{where}.device-filter"),
        _parse_devices(rule["devices"], f"{where}.devices"),
    )


def _parse_instances(value: object, where: str) -> tuple[tuple[str, int], ...]:
    if value is None:
        return ()
    found: list[tuple[str, int]] = []
    for name, count in _as_mapping(value, where).items():
        if re.match(r"\d+c\.", name):
            raise InvalidConfigFile(
                f"{where}.{name}",
                "compute instances smaller than their GPU instance are not supported: write "
                f"{name.partition('.')[2]}",
            )
        if _PROFILE.fullmatch(name) is None:
            raise InvalidConfigFile(f"{where}.{name}", "is no MIG profile, such as 1g.10gb")
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise InvalidConfigFile(f"{where}.{name}", f"{count!r} is no number of instances")
        if count:
            found.append((name, count))
    return tuple(found)


def _parse_filter(value: object, where: str) -> tuple[int, ...]:
    if value is None or value == "":
        return ()
    texts = cast("list[object]", value) if isinstance(value, list) else [value]
    ids: list[int] = []
    for text in texts:
        # YAML reads an unquoted 0x… as a number.
        if isinstance(text, int) and not isinstance(text, bool):
            ids.append(text)
        elif isinstance(text, str) and re.fullmatch(r"0[xX][0-9a-fA-F]{8}", text, re.ASCII):
            ids.append(int(text, 16))
        else:
            raise InvalidConfigFile(
                where, f"{text!r} is no PCI device and vendor, such as 0x233010DE"
            )
    return tuple(ids)


def _parse_devices(value: object, where: str) -> tuple[int, ...] | None:
    if value == ALL:
        return None
    if isinstance(value, list):
        indices = cast("list[object]", value)
        if all(isinstance(each, int) and not isinstance(each, bool) for each in indices):
            return tuple(cast("list[int]", indices))
    raise InvalidConfigFile(where, f"{value!r} is neither {ALL!r} nor a list of indices")


def _as_mapping(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise InvalidConfigFile(where, "must be a mapping")
    return {str(name): each for name, each in cast("dict[object, object]", value).items()}
