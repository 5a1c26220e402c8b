"""Specs that were sound are not judged again, and nothing else is let pass for one."""

from typing import Any

import pytest

from kilonova.local.errors import Problem, required
from kilonova.local.kinds.builtin import builtin_kinds
from kilonova.local.kinds.soundspecs import SoundSpecs


def spec(volume: str = "kube-api-access-abcde", mount: str = "", **fields: Any) -> dict[str, Any]:
    mounts = [{"name": mount or volume, "mountPath": "/token"}]
    container = {"name": "main", "image": "x", "volumeMounts": mounts}
    return {"containers": [container], "volumes": [{"name": volume}], **fields}


class Judge:
    def __init__(self, *problems: Problem) -> None:
        self._problems = problems
        self.asked = 0

    def __call__(self, spec: dict[str, Any]) -> list[Problem]:
        self.asked += 1
        return list(self._problems)


@pytest.mark.parametrize(
    ("second", "asked"),
    [
        (spec(), 1),
        (spec("kube-api-access-vwxyz"), 1),
        (spec(mount="kube-api-access-vwxyz"), 2),
        (spec(""), 2),
        (spec("other"), 2),
        (spec(nodeName="n"), 2),
    ],
)
def test_only_a_spec_like_a_sound_one_is_not_judged(second: dict[str, Any], asked: int) -> None:
    sound, judge = SoundSpecs(), Judge()
    assert sound.problems(spec(), judge) == sound.problems(second, judge) == []
    assert judge.asked == asked


def test_the_names_of_node_and_host_make_no_difference() -> None:
    sound, judge = SoundSpecs(), Judge()
    for name in ("a", "b"):
        assert sound.problems(spec(nodeName=name, hostname=name), judge) == []
    assert judge.asked == 1


def test_an_unsound_spec_is_judged_each_time() -> None:
    sound, judge = SoundSpecs(), Judge(required("spec.x"))
    for _ in range(2):
        assert sound.problems(spec(), judge) == [required("spec.x")]
    assert judge.asked == 2


def test_many_different_specs_are_all_judged() -> None:
    sound, judge = SoundSpecs(), Judge()
    for number in range(2000):
        sound.problems(spec(priority=number), judge)
    assert judge.asked == 2000


def test_a_pod_like_a_sound_one_may_still_have_a_wrong_name() -> None:
    pods = next(kind for kind in builtin_kinds() if (kind.group, kind.plural) == ("", "pods"))

    def refused(node: str) -> list[str]:
        pod: dict[str, Any] = {"metadata": {"name": "p"}, "spec": spec(nodeName=node)}
        pod["spec"]["volumes"][0]["emptyDir"] = {}
        pods.behavior.default(pod)
        return [problem.path for problem in pods.behavior.validate(pod)]

    assert [refused("good"), refused("good"), refused("BAD")] == [[], [], ["spec.nodeName"]]
