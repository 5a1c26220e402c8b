"""Rules of what an instance is made from: of an instance, a template and a release. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kilonova.api.inference_engine import Accelerator, EngineSpec, PodTemplate, names
from kilonova.api.pods.specs import list_containers
from kilonova.artifacts.tokenizers.names import is_canonical, is_normalised
from kilonova.instances.allocation import GROUP as ALLOCATION_GROUP
from kilonova.instances.allocation import AllocationConstraints
from kilonova.instances.allocation.strategies import STRATEGIES
from kilonova.instances.plugins import PluginSet
from kilonova.instances.repair import GROUP as REPAIR_GROUP
from kilonova.instances.repair import RepairDecision
from kilonova.instances.repair.ladder import POLICIES
from kilonova.kube.admission import FieldError
from kilonova.kube.admission.field_errors import (
    forbidden,
    invalid_value,
    not_found,
    required,
)
from kilonova.kube.admission.field_rules import validate_duration
from kilonova.kube.admission.syntax import (
    check_dns_subdomain,
    check_label_key,
    check_label_value,
    check_variable_name,
)

ListNames = Callable[[], Sequence[str]]

_OWN_LABELS = frozenset(
    {
        names.MODEL_INSTANCE,
        names.ROLE,
        names.AGENT_INDEX,
        names.DEPLOYMENT,
        names.RELEASE,
        names.ALLOCATION,
    }
)


_list_strategies = PluginSet(ALLOCATION_GROUP, STRATEGIES, AllocationConstraints).list_names
_list_policies = PluginSet(REPAIR_GROUP, POLICIES, RepairDecision).list_names


@dataclass(frozen=True, slots=True)
class EngineRules:
    """What names in a spec may refer to; by default the plug-ins that are installed here."""

    list_strategies: ListNames = _list_strategies
    list_policies: ListNames = _list_policies

    def validate(self, spec: EngineSpec, path: str) -> Iterator[FieldError]:
        """Errors of a spec at a path."""
        if spec.target_agents is None and not spec.build:
            yield required(
                f"{path}.targetAgents",
                "set it, or name a build that specifies the number of agents",
            )
        yield from _validate_accelerator(spec.accelerator, f"{path}.accelerator")
        yield from self._validate_plugins(spec, path)
        yield from validate_duration(f"{path}.repair.deadline", spec.repair.deadline)
        yield from _validate_levels(spec, f"{path}.topology")
        yield from _validate_template(spec, spec.agent, f"{path}.agent")
        yield from _validate_template(spec, spec.conductor, f"{path}.conductor")
        for key in sorted(spec.config):
            if problem := check_variable_name(key):
                yield invalid_value(f"{path}.config", key, f"{problem}: it is a variable's name")
        yield from validate_release_name(spec.release, f"{path}.release")
        if spec.priority_class_name and (problem := check_dns_subdomain(spec.priority_class_name)):
            yield invalid_value(f"{path}.priorityClassName", spec.priority_class_name, problem)
        if spec.tokenizer and not (is_canonical(spec.tokenizer) or is_normalised(spec.tokenizer)):
            rule = "must be a name like org/model, or org_model in lower case"
            yield invalid_value(f"{path}.tokenizer", spec.tokenizer, rule)

    def _validate_plugins(self, spec: EngineSpec, path: str) -> Iterator[FieldError]:
        for field, name, known, group in (
            (
                "allocation.strategy",
                spec.allocation.strategy,
                self.list_strategies(),
                ALLOCATION_GROUP,
            ),
            ("repair.policy", spec.repair.policy, self.list_policies(), REPAIR_GROUP),
        ):
            if name not in known:
                rule = f"use one of {', '.join(known)}, or install the package that offers it under"
                yield not_found(f"{path}.{field}", name, f"{rule} {group}")


def validate_release_name(release: str, path: str) -> Iterator[FieldError]:
    """The name of a release is the value of a label."""
    if problem := check_label_value(release):
        yield invalid_value(
            path, release, f"{problem}: instances have it as the label {names.RELEASE}"
        )


def _validate_accelerator(accelerator: Accelerator | None, path: str) -> Iterator[FieldError]:
    if accelerator is None:
        return
    name = accelerator.resource
    if name:
        problem = check_label_key(name)
        if problem is None and ("/" not in name or name.endswith("/")):
            problem = "must be the name of an extended resource, such as nvidia.com/gpu"
        domain = name.partition("/")[0]
        if problem is None and (domain == "kubernetes.io" or domain.endswith(".kubernetes.io")):
            problem = "must not be a resource of Kubernetes itself: write one like nvidia.com/gpu"
        if problem is not None:
            yield invalid_value(f"{path}.resource", name, problem)


def _validate_levels(spec: EngineSpec, path: str) -> Iterator[FieldError]:
    if spec.topology is None:
        return
    for field in ("required", "preferred"):
        level: str | None = getattr(spec.topology, field)
        if level is not None and (problem := check_label_key(level)):
            rule = f"{problem}: a level is the key of a label of nodes"
            yield invalid_value(f"{path}.{field}", level, rule)


def _validate_template(
    spec: EngineSpec, template: PodTemplate | None, path: str
) -> Iterator[FieldError]:
    """Each pod has a container, and an image for it."""
    containers = [] if template is None else list_containers(template.spec)
    if not containers and not spec.image and not spec.build:
        yield required(f"{path}.spec.containers", "write the container, or set image beside it")
    for index, container in enumerate(containers):
        if not container.get("image") and not spec.image and not spec.build:
            rule = "set it, or the image of all containers that have none"
            yield required(f"{path}.spec.containers[{index}].image", rule)
    if template is None:
        return
    for key, value in template.metadata.labels.items():
        where = f"{path}.metadata.labels"
        if key in _OWN_LABELS:
            yield forbidden(f"{where}[{key}]", "is set by the controller: leave it out")
        elif problem := check_label_key(key):
            yield invalid_value(where, key, problem)
        elif problem := check_label_value(value):
            yield invalid_value(f"{where}[{key}]", value, problem)
