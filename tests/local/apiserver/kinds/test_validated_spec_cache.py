"""Valid specs are not validated again, and no other spec is taken for one."""

from typing import Any

import pytest

from kilonova.local.apimachinery.errors import FieldError, required_value
from kilonova.local.apiserver.kinds.builtin import builtin_kinds
from kilonova.local.apiserver.kinds.core.pods.validated_spec_cache import ValidatedSpecCache


def spec(volume: str = "kube-api-access-abcde", mount: str = "", **fields: Any) -> dict[str, Any]:
    mounts = [{"name": mount or volume, "mountPath": "/token"}]
    container = {"name": "main", "image": "x", "volumeMounts": mounts}
    return {"containers": [container], "volumes": [{"name": volume}], **fields}


class CountingValidator:
    def __init__(self, *problems: FieldError) -> None:
        self._problems = problems
        self.calls = 0

    def __call__(self, spec: dict[str, Any]) -> list[FieldError]:
        self.calls += 1
        return list(self._problems)


@pytest.mark.parametrize(
    ("second", "calls"),
    [
        (spec(), 1),
        (spec("kube-api-access-vwxyz"), 1),
        (spec(mount="kube-api-access-vwxyz"), 2),
        (spec(""), 2),
        (spec("other"), 2),
        (spec(nodeName="n"), 2),
    ],
)
def test_spec_equal_to_a_valid_one_is_not_validated(second: dict[str, Any], calls: int) -> None:
    cache, validator = ValidatedSpecCache(), CountingValidator()
    assert cache.validate(spec(), validator) == cache.validate(second, validator) == []
    assert validator.calls == calls


def test_node_name_and_hostname_are_not_in_the_cache_key() -> None:
    cache, validator = ValidatedSpecCache(), CountingValidator()
    for name in ("a", "b"):
        assert cache.validate(spec(nodeName=name, hostname=name), validator) == []
    assert validator.calls == 1


def test_invalid_spec_is_validated_each_time() -> None:
    cache, validator = ValidatedSpecCache(), CountingValidator(required_value("spec.x"))
    for _ in range(2):
        assert cache.validate(spec(), validator) == [required_value("spec.x")]
    assert validator.calls == 2


def test_many_different_specs_are_all_validated() -> None:
    cache, validator = ValidatedSpecCache(), CountingValidator()
    for number in range(2000):
        cache.validate(spec(priority=number), validator)
    assert validator.calls == 2000


def test_node_name_is_validated_for_a_cached_spec() -> None:
    pods = next(kind for kind in builtin_kinds() if (kind.group, kind.plural) == ("", "pods"))

    def invalid_fields(node: str) -> list[str]:
        pod: dict[str, Any] = {"metadata": {"name": "p"}, "spec": spec(nodeName=node)}
        pod["spec"]["volumes"][0]["emptyDir"] = {}
        pods.strategy.default(pod)
        return [problem.path for problem in pods.strategy.validate(pod)]

    assert [invalid_fields("good"), invalid_fields("good"), invalid_fields("BAD")] == [
        [],
        [],
        ["spec.nodeName"],
    ]
