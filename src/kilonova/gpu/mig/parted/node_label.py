"""The label `nvidia.com/mig.config` of a node, and the state that answers it. Pure.

The state is always that of the devices: `success` where the config is in force, `failed` with a
message where it cannot be, and `pending` only while it is being applied. So it cannot get stuck: a
failure is tried again when its cause may have gone, and a node that has lost its instances, such as
by a reboot, is `pending` again by itself.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from kilonova.gpu.devices.model import NodeInventory
from kilonova.gpu.mig.parted.config_file import ConfigFile, ConfigRule
from kilonova.gpu.mig.parted.labels import CONFIG_LABEL, STATE_LABEL
from kilonova.gpu.mig.parted.operations import check_config


class ConfigState(StrEnum):
    """The values of the state's label."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILED = "failed"


class LabelDecision(msgspec.Struct, frozen=True):
    """What the state of a node's config is, and what to apply."""

    state: ConfigState | None
    """None where the node has no such label: no state is written."""
    message: str = ""
    rules: Sequence[ConfigRule] = ()
    """To be applied, if the state is pending."""


def decide_config(
    labels: Mapping[str, str],
    configs: ConfigFile,
    inventory: NodeInventory,
    failure: str = "",
) -> LabelDecision:
    """The state of a node's config. `failure` is why the last attempt to apply it has failed, until
    another attempt is due."""
    name = labels.get(CONFIG_LABEL, "")
    if not name:
        return LabelDecision(None)
    rules = configs.get(name)
    if rules is None:
        known = ", ".join(sorted(configs))
        return LabelDecision(
            ConfigState.FAILED, f"label {CONFIG_LABEL}: there is no config {name!r}: {known}"
        )
    differences = check_config(rules, inventory)
    if not differences:
        return LabelDecision(ConfigState.SUCCESS, f"{name} is in force")
    if failure:
        return LabelDecision(ConfigState.FAILED, failure, rules)
    return LabelDecision(ConfigState.PENDING, "; ".join(differences), rules)


def state_labels(decision: LabelDecision) -> Mapping[str, str | None]:
    """The label to set on the node; None removes it."""
    return {STATE_LABEL: None if decision.state is None else decision.state.value}
