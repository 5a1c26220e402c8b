"""Rules of groups of servers. Pure."""

from collections.abc import Iterator
from typing import cast

from kilonova.api.cron import parse_schedule, time_zone_error
from kilonova.api.grove import names as grove_names
from kilonova.api.grove.common import MAX_REPLICAS
from kilonova.api.grove.podcliqueset import Template
from kilonova.api.json import JsonObject
from kilonova.api.serving import Autoscaling, ServerGroup, names
from kilonova.kube.admission import FieldError
from kilonova.kube.admission.field_errors import (
    forbidden,
    invalid_value,
    not_found,
    required,
)
from kilonova.objectstore import ObjectStoreError
from kilonova.objectstore.locations import parse_location
from kilonova.serving.builders.server_set import CLIQUE

_RESERVED_NAMES = ("gateway",)


def validate_group(group: ServerGroup, path: str, service: str) -> Iterator[FieldError]:
    """Errors of a group at a path."""
    yield from _validate_name(group, path, service)
    yield from _validate_numbers(group, path)
    yield from _validate_ports(group, f"{path}.ports")
    if group.pod_clique_set_template is not None:
        yield from _validate_template(group, group.pod_clique_set_template, path)
    elif group.runtime == "Custom" and not _find_image(group):
        rule = "set the image of the server, or a runtime that has one: ModelServer, Triton"
        yield required(f"{path}.image", rule)
    if group.runtime == "Triton" and group.protocol == "OpenAI":
        rule = "is not what tritonserver speaks: use V2, or the runtime Custom with a command"
        yield invalid_value(f"{path}.protocol", group.protocol, rule)
    if group.autoscaling is not None:
        yield from _validate_autoscaling(group.autoscaling, f"{path}.autoscaling")
    yield from _validate_repository(group, path)


def _validate_name(group: ServerGroup, path: str, service: str) -> Iterator[FieldError]:
    if group.name in _RESERVED_NAMES:
        rule = "is taken by the gateway of the service: choose another name"
        yield invalid_value(f"{path}.name", group.name, rule)
    set_name = names.build_server_set(service, group.name)
    longest = max((len(each) for each in _list_clique_names(group)), default=0)
    limit = grove_names.MAX_COMBINED_NAME_LENGTH - longest
    if len(set_name) > limit:
        rule = (
            f"is too long: {set_name!r} has {len(set_name)} characters, and the names of its pods "
            f"leave {limit}; shorten it, or the name of the service"
        )
        yield invalid_value(f"{path}.name", group.name, rule)


def _validate_numbers(group: ServerGroup, path: str) -> Iterator[FieldError]:
    """The PodCliqueSet of a group takes no more."""
    fields = [("replicas", group.replicas)]
    if group.autoscaling is not None:
        fields.append(("autoscaling.maxReplicas", group.autoscaling.max_replicas))
    for field, value in fields:
        if value is not None and value > MAX_REPLICAS:
            rule = f"must be no more than {MAX_REPLICAS}"
            yield invalid_value(f"{path}.{field}", value, rule)


def _list_clique_names(group: ServerGroup) -> Iterator[str]:
    template = group.pod_clique_set_template
    if template is None:
        yield CLIQUE
        return
    scaled = {
        clique: each.name
        for each in template.pod_clique_scaling_groups
        for clique in each.clique_names
    }
    for each in template.cliques:
        yield scaled.get(each.name, "") + each.name


def _validate_ports(group: ServerGroup, path: str) -> Iterator[FieldError]:
    ports = group.ports
    if not ports.http and not ports.grpc:
        yield required(f"{path}.http", "set the port of HTTP, or that of gRPC")
    if group.protocol != "V2" and not ports.http:
        yield required(f"{path}.http", f"the protocol {group.protocol} is spoken over HTTP")
    if ports.grpc and ports.grpc in (ports.http, ports.metrics):
        # Metrics may be served beside the API over HTTP.
        rule = "is another port of the server: choose another, or 0 if it does not speak gRPC"
        yield invalid_value(f"{path}.grpc", ports.grpc, rule)


def _find_image(group: ServerGroup) -> str:
    if group.image or group.template is None:
        return group.image
    containers = cast("list[JsonObject]", group.template.spec.get("containers") or [{}])
    return containers[0].get("image") or ""


def _validate_template(group: ServerGroup, template: Template, path: str) -> Iterator[FieldError]:
    cliques = {each.name: each for each in template.cliques}
    if group.entry_clique and group.entry_clique not in cliques:
        rule = f"is no clique of podCliqueSetTemplate: use one of {', '.join(sorted(cliques))}"
        yield not_found(f"{path}.entryClique", group.entry_clique, rule)
    for field, value in (("image", group.image), ("modelRepository", group.model_repository)):
        if value:
            rule = "podCliqueSetTemplate has the pods: write it there"
            yield forbidden(f"{path}.{field}", rule)
    if group.runtime != "Custom":
        rule = f"{group.runtime} makes the pods, which podCliqueSetTemplate has: use Custom"
        yield invalid_value(f"{path}.runtime", group.runtime, rule)
    entry = cliques.get(group.entry_clique)
    if group.autoscaling is not None and entry and entry.spec.auto_scaling_config is not None:
        number = template.cliques.index(entry)
        where = f"{path}.podCliqueSetTemplate.cliques[{number}].spec.autoScalingConfig"
        rule = "the service scales whole servers already: leave one of both out"
        yield forbidden(where, rule)


def _validate_autoscaling(autoscaling: Autoscaling, path: str) -> Iterator[FieldError]:
    if autoscaling.scaler == "HorizontalPodAutoscaler" and not autoscaling.min_replicas:
        rule = "a HorizontalPodAutoscaler does not scale to 0: use ScaledObject or Builtin, or 1"
        yield invalid_value(f"{path}.minReplicas", autoscaling.min_replicas, rule)
    for number, entry in enumerate(autoscaling.schedule):
        where = f"{path}.schedule[{number}]"
        if problem := time_zone_error(entry.time_zone):
            yield invalid_value(f"{where}.timeZone", entry.time_zone, problem)
            continue
        try:
            parse_schedule(entry.start, entry.time_zone)
        except ValueError as error:
            rule = f"{error}: write a time as for cron, such as 0 8 * * 1-5"
            yield invalid_value(f"{where}.start", entry.start, rule)
        low, high = entry.min_replicas, entry.max_replicas
        if low is None and high is None:
            yield required(f"{where}.minReplicas", "set it, or maxReplicas")
        elif low is not None and high is not None and low > high:
            yield invalid_value(f"{where}.minReplicas", low, f"must not exceed maxReplicas, {high}")


def _validate_repository(group: ServerGroup, path: str) -> Iterator[FieldError]:
    repository = group.model_repository
    if repository is not None and not repository.mount_path.strip("/"):
        rule = "would hide the files of the image: use a folder, such as /models"
        yield invalid_value(f"{path}.modelRepository.mountPath", repository.mount_path, rule)
    if repository is not None and repository.object_store is not None:
        url = repository.object_store.url
        try:
            parse_location(url)
        except ObjectStoreError as error:
            yield invalid_value(f"{path}.modelRepository.objectStore.url", url, str(error))
    placement = group.model_placement
    if placement is None:
        return
    for number, model in enumerate(placement.models):
        most = model.max_copies
        if most is not None and model.min_copies > most:
            where = f"{path}.modelPlacement.models[{number}].minCopies"
            yield invalid_value(where, model.min_copies, f"must not exceed maxCopies, {most}")
