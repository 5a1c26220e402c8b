"""Objects of an instance: gang, pods, Service and Reservation."""

from typing import Any

import msgspec
import pytest

from kilonova.api.inference_engine import EngineSpec, InferenceEngineInstance
from kilonova.instances.allocation import AllocationConstraints, NodePreference
from kilonova.instances.builders.engine import Engine, InvalidSpec, resolve_engine
from kilonova.instances.builders.gang import build_gang
from kilonova.instances.builders.identity import Identity
from kilonova.instances.builders.pods import build_agent_pod, build_conductor_pod
from kilonova.instances.builders.reservation import build_reservation
from kilonova.instances.builders.service import build_services

ZONE, BLOCK, RACK = "zone", "block", "rack"
TIGHTEST = AllocationConstraints(preferred=(RACK, BLOCK, ZONE))


def engine(**fields: Any) -> Engine:
    body = {"model": "llama", "targetAgents": 2, "image": "engine:1", **fields}
    return resolve_engine(msgspec.convert(body, EngineSpec))


def identity(**labels: str) -> Identity:
    instance = {
        "metadata": {
            "name": "llama",
            "namespace": "inference-engine",
            "uid": "u1",
            "resourceVersion": "1",
            "labels": labels,
        },
        "spec": {"model": "llama", "release": "llama-v1"},
    }
    return Identity.of(msgspec.convert(instance, InferenceEngineInstance))


def agent(index: int = 0, of: Engine | None = None, **more: Any) -> Any:
    return build_agent_pod(identity(), of or engine(), index, scheduler_name="s", **more)


def gang(of: Engine, constraints: AllocationConstraints = TIGHTEST, **more: Any) -> Any:
    names = {"agents": ["llama-agent-0", "llama-agent-1"], "conductor": "llama-conductor"}
    return build_gang(identity(), of, constraints, **names, **more)


def test_agent_pod_names_its_instance_and_what_it_joins() -> None:
    pod = agent(1, generation=3, allocation=2)
    assert pod["metadata"]["name"] == "llama-agent-1-r3"
    labels = pod["metadata"]["labels"]
    assert labels["supernova.groq.io/model-instance"] == "llama"
    assert labels["supernova.groq.io/role"] == "agent"
    assert labels["supernova.groq.io/agent-index"] == "1"
    assert labels["supernova.groq.io/allocation"] == "2"
    assert labels["supernova.groq.io/release"] == "llama-v1"
    assert labels["kilonova.dev/workload"] == "InferenceEngineInstance_llama"
    assert labels["grove.io/podgang"] == "iei2-llama"
    spec = pod["spec"]
    assert spec["schedulerName"] == "s"
    assert spec["schedulingGates"] == [{"name": "grove.io/podgang-pending-creation"}]
    (container,) = spec["containers"]
    assert container["image"] == "engine:1"
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert {each["name"]: each["value"] for each in container["env"]} == {
        "ENGINE_ROLE": "agent",
        "ENGINE_MODEL": "llama",
        "ENGINE_AGENTS": "2",
        "ENGINE_AGENT_INDEX": "1",
        "ENGINE_CONDUCTOR": "iei2-llama.inference-engine.svc:8001",
    }


def test_conductor_is_preferably_beside_its_agents() -> None:
    own = {"weight": 1, "podAffinityTerm": {"topologyKey": "x", "labelSelector": {}}}
    key = "preferredDuringSchedulingIgnoredDuringExecution"
    template = {
        "spec": {
            "containers": [{"name": "main", "image": "engine:1"}],
            "affinity": {"podAffinity": {key: [own]}},
        }
    }
    pod = build_conductor_pod(
        identity(), engine(conductor=template), scheduler_name="s", allocation=2, levels=(RACK,)
    )
    given, added = pod["spec"]["affinity"]["podAffinity"][key]
    assert given == own
    assert added["podAffinityTerm"] == {
        "topologyKey": RACK,
        "labelSelector": {
            "matchLabels": {
                "supernova.groq.io/model-instance": "llama",
                "supernova.groq.io/allocation": "2",
                "supernova.groq.io/role": "agent",
            }
        },
    }


def test_conductor_without_levels_has_no_affinity() -> None:
    pod = build_conductor_pod(identity(), engine(), scheduler_name="s")
    assert "affinity" not in pod["spec"]


def test_template_is_kept() -> None:
    template = {
        "metadata": {"labels": {"team": "a"}},
        "spec": {
            "schedulerName": "other",
            "priorityClassName": "own",
            "containers": [
                {
                    "name": "main",
                    "env": [{"name": "ENGINE_AGENTS", "value": "9"}],
                    "resources": {"limits": {"nvidia.com/gpu": 4}},
                },
                {"name": "proxy", "image": "proxy:2"},
            ],
        },
    }
    pod = agent(of=engine(agent=template, priorityClassName="high", config={"depth": "2"}))
    spec = pod["spec"]
    assert pod["metadata"]["labels"]["team"] == "a"
    assert (spec["schedulerName"], spec["priorityClassName"]) == ("other", "own")
    main, proxy = spec["containers"]
    assert (main["image"], proxy["image"]) == ("engine:1", "proxy:2")
    assert main["resources"] == {"limits": {"nvidia.com/gpu": 4}}
    assert main["env"][-1] == {"name": "ENGINE_AGENTS", "value": "9"}
    assert {"name": "depth", "value": "2"} in proxy["env"]


def test_container_needs_an_image() -> None:
    with pytest.raises(InvalidSpec, match=r"spec.agent.spec.containers\[0\].image: is missing"):
        agent(of=engine(image=""))


@pytest.mark.parametrize(
    ("accelerator", "annotation"),
    [
        ({"memory": "80Gi"}, "81920"),
        ({"memory": "80Gi", "resource": "groq.com/lpu"}, None),
        ({"memory": "80Gi", "count": 0}, None),
        ({}, None),
    ],
)
def test_memory_of_gpus_is_required_of_the_scheduler(accelerator: Any, annotation: Any) -> None:
    pod = agent(of=engine(accelerator=accelerator))
    assert pod["metadata"]["annotations"].get("gpu.kilonova.dev/min-memory") == annotation


def test_any_resource_is_an_accelerator() -> None:
    pod = agent(of=engine(accelerator={"resource": "groq.com/lpu", "count": 8}))
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"groq.com/lpu": "8"}


def test_preferred_nodes_are_added_to_the_affinity() -> None:
    preferences = [NodePreference({"power": "green"}, 5)]
    affinity = agent(node_preferences=preferences)["spec"]["affinity"]
    assert affinity["nodeAffinity"] == {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 5,
                "preference": {
                    "matchExpressions": [{"key": "power", "operator": "In", "values": ["green"]}]
                },
            }
        ]
    }


def test_gang_has_both_groups_and_starts_as_a_whole() -> None:
    found = gang(engine(queue="serving", priorityClassName="high"))
    agents, conductor = found["spec"]["podgroups"]
    assert (agents["minReplicas"], conductor["minReplicas"]) == (2, 1)
    assert [each["name"] for each in agents["podReferences"]] == ["llama-agent-0", "llama-agent-1"]
    assert [each["name"] for each in conductor["podReferences"]] == ["llama-conductor"]
    assert found["metadata"]["labels"]["scheduling.kilonova.dev/queue"] == "serving"
    assert found["spec"]["priorityClassName"] == "high"


def pack(obj: Any) -> Any:
    return obj.get("topologyConstraint", {}).get("packConstraint", {})


@pytest.mark.parametrize(
    ("fields", "constraints", "level", "expected"),
    [
        # Of the agents, from the outside in.
        (
            {},
            (RACK, BLOCK, ZONE),
            "",
            [{"preferred": RACK}, {"preferred": BLOCK}, {"preferred": ZONE}],
        ),
        ({}, (RACK, BLOCK), "", [{"preferred": RACK}, {"preferred": BLOCK}]),
        ({}, (RACK,), "", [{"preferred": RACK}]),
        ({}, (), "", [{}]),
        (
            {},
            (RACK, BLOCK, ZONE),
            BLOCK,
            [{"required": BLOCK, "preferred": RACK}, {"preferred": ZONE}],
        ),
        ({"topology": {"required": ZONE}}, (RACK,), "", [{"required": ZONE, "preferred": RACK}]),
        (
            {"topology": {"required": ZONE, "preferred": BLOCK}},
            (RACK,),
            "",
            [{"required": ZONE, "preferred": BLOCK}],
        ),
        ({"topology": {"required": ZONE}}, (RACK,), RACK, [{"required": RACK}]),
    ],
)
def test_levels_of_a_gang(fields: Any, constraints: Any, level: str, expected: Any) -> None:
    found = gang(engine(**fields), AllocationConstraints(preferred=constraints), level=level)
    bundles = found["spec"].get("topologyConstraintGroupConfigs", [])
    agents, conductor = found["spec"]["podgroups"]
    assert [*map(pack, bundles), pack(agents)] == expected
    assert all(each["podGroupNames"] == ["agents"] for each in bundles)
    assert pack(conductor) == pack(found["spec"]) == {}


def test_gang_avoids_nodes_and_uses_a_reservation() -> None:
    constraints = AllocationConstraints(avoided_nodes=("n2",))
    found = gang(engine(), constraints, allocation=1, avoided_nodes=["n1"], reservation="r")
    assert found["metadata"]["name"] == "iei1-llama"
    annotations = found["metadata"]["annotations"]
    assert annotations["scheduling.kilonova.dev/avoid-nodes"] == "n1,n2"
    reference = {"namespace": "inference-engine", "name": "r"}
    assert found["spec"]["reuseReservationRef"] == reference


def test_instances_of_a_deployment_are_spread() -> None:
    constraints = AllocationConstraints(spread=RACK)
    of_deployment = identity(**{"supernova.groq.io/deployment": "chat"})
    for owner, expected in (
        (of_deployment, {"topologyKey": RACK, "among": "supernova.groq.io/deployment"}),
        (identity(), None),
    ):
        found = build_gang(owner, engine(), constraints, agents=["a"], conductor="c")
        assert found["spec"].get("spread") == expected


def list_services(allocation: int, serving: int) -> dict[str, tuple[str, list[int]]]:
    """Allocation and ports by name."""
    found = build_services(identity(), allocation, serving)
    return {
        each["metadata"]["name"]: (
            each["spec"]["selector"]["supernova.groq.io/allocation"],
            [port["port"] for port in each["spec"]["ports"]],
        )
        for each in found
    }


def test_service_has_the_conductor_of_the_allocation_before_it_is_ready() -> None:
    (service,) = build_services(identity(), 0, 0)
    assert service["metadata"]["name"] == "iei-llama"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"] == {
        "supernova.groq.io/model-instance": "llama",
        "supernova.groq.io/role": "conductor",
        "supernova.groq.io/allocation": "0",
    }


def test_agents_of_a_relocated_instance_join_through_a_service_of_their_own() -> None:
    moving = {"iei-llama": ("0", [8000, 8001]), "iei1-llama": ("1", [8001])}
    assert list_services(1, 0) == moving
    assert list_services(1, 1) == {**moving, "iei-llama": ("1", [8000, 8001])}
    variables = {
        each["name"]: each["value"] for each in agent(allocation=0)["spec"]["containers"][0]["env"]
    }
    assert variables["ENGINE_CONDUCTOR"] == "iei-llama.inference-engine.svc:8001"


def test_reservation_is_for_all_pods() -> None:
    cpu = {"resources": {"limits": {"cpu": 2}, "requests": {"cpu": 1, "memory": "1Gi"}}}
    template = {
        "spec": {
            "containers": [{"name": "main", **cpu}, {"name": "proxy", **cpu}],
            "nodeSelector": {"pool": "a"},
            "tolerations": [{"key": "x", "operator": "Exists", "tolerationSeconds": 5}],
        }
    }
    of = engine(agent=template, queue="serving")
    conductor = build_conductor_pod(identity(), of, scheduler_name="s")
    found: Any = build_reservation(
        identity(), of, agent(of=of), conductor, allocation=1, level=RACK
    )
    assert found["metadata"]["name"] == "iei1-llama"
    assert found["spec"] == {
        "pods": [
            {
                "count": 2,
                "requests": {"cpu": "2", "memory": "2Gi", "nvidia.com/gpu": "1"},
                "nodeSelector": {"pool": "a"},
                "tolerations": [{"key": "x", "operator": "Exists"}],
            }
        ],
        "duration": "1h",
        "topologyKey": RACK,
        "queue": "serving",
    }


def test_entries_of_a_reservation_have_a_maximum() -> None:
    of = engine(targetAgents=9000)
    conductor = build_conductor_pod(identity(), of, scheduler_name="s")
    found: Any = build_reservation(identity(), of, agent(of=of), conductor, allocation=1)
    assert [each["count"] for each in found["spec"]["pods"]] == [4096, 4096, 808]


def test_pods_without_requests_need_no_reservation() -> None:
    of = engine(accelerator={"count": 0})
    conductor = build_conductor_pod(identity(), of, scheduler_name="s")
    assert build_reservation(identity(), of, agent(of=of), conductor, allocation=1) is None
