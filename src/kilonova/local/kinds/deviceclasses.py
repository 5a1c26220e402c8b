"""DeviceClasses: names for sorts of devices."""

from collections.abc import Iterator

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, invalid_value
from kilonova.local.kinds.columns import AGE, NAME
from kilonova.local.kinds.devicenames import each
from kilonova.local.kinds.devicerequests import MOST_CONFIGURATIONS, configuration_problems
from kilonova.local.kinds.deviceselectors import selector_problems
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import objects, part
from kilonova.local.names import qualified_name

_QUOTA_PREFIX = "requests."


@strategy("resource.k8s.io", "DeviceClass")
class DeviceClasses(Strategy):
    """Selectors and configuration that requests refer to by a name."""

    shown_when_deleted = True
    has_generation = True
    columns = (NAME, AGE)

    def problems(self, obj: JsonObject) -> list[Problem]:
        return list(_problems(part(obj, "spec")))


def _problems(spec: JsonObject) -> Iterator[Problem]:
    yield from selector_problems(objects(spec, "selectors"), "spec.selectors")
    configurations = objects(spec, "config")
    yield from each(configurations, MOST_CONFIGURATIONS, configuration_problems, "spec.config")
    resource = spec.get("extendedResourceName")
    if resource is not None and not _is_extended_resource(resource):
        detail = "must be a valid extended resource name"
        yield invalid_value("spec.extendedResourceName", resource, detail)


def _is_extended_resource(name: str) -> bool:
    native = "/" not in name or "kubernetes.io/" in name
    if native or name.startswith(_QUOTA_PREFIX):
        return False
    return qualified_name(_QUOTA_PREFIX + name) is None
