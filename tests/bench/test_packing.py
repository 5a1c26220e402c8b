"""The packing benchmark, with a trace small enough to verify by hand."""

from pathlib import Path
from random import Random
from statistics import fmean

import msgspec
import pytest
from typer.testing import CliRunner, Result

from bench.__main__ import app
from bench.packing.policies import FitPolicy, FragmentationGradientDescent, RandomPolicy
from bench.packing.simulation import simulate
from bench.packing.traces import get_mix_name, order_arrivals, read_nodes, read_tasks
from bench.packing.upper_bound import compute_device_fractions, compute_upper_bound
from kilonova.scheduler.core.scoring.demand import PackingRequest

NODES = """\
sn,cpu_milli,memory_mib,gpu,model
n-2,32000,131072,4,A
n-1,64000,262144,2,B
n-3,8000,32768,0,
"""
TASKS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos
t-1,4000,8192,1,1000,,LS
t-2,0,8192,1,500,B,LS
t-3,2000,8192,1,300,A|B,BE
t-4,8000,1024,0,0,,BE
t-5,8000,16384,2,1000,,LS
"""


def write_trace(tmp_path: Path, nodes: str = NODES, tasks: str = TASKS) -> tuple[Path, Path]:
    paths = tmp_path / "nodes.csv", tmp_path / "openb_pod_list_tiny.csv"
    paths[0].write_text(nodes)
    paths[1].write_text(tasks)
    return paths


def run_packing(*options: str | Path) -> Result:
    return CliRunner().invoke(app, ["packing", *map(str, options)])


def test_results_of_all_policies_are_written_as_json(tmp_path: Path) -> None:
    nodes, tasks = write_trace(tmp_path)
    other = tmp_path / "other.csv"
    other.write_text("\n".join(line.rsplit(",", 2)[0] for line in TASKS.splitlines()))
    file = tmp_path / "figures.json"
    options = ("--seeds", "1-2", "--jobs", "1", "--moves", "--json", file)
    result = run_packing("--nodes", nodes, "--pods", tasks, other, *options)
    assert result.exit_code == 0, result.output
    document = msgspec.json.decode(file.read_bytes())
    assert [(row["mix"], row["x"]) for row in document["rows"]] == [
        ("tiny", 100),
        ("tiny", 130),
        ("other", 100),
        ("other", 130),
    ]
    for row in document["rows"]:
        assert all(0 < figure <= 100 for figure in row["played"].values())
        assert not row["published"]
    assert len(document["matches"]) == 2 * 7 * 2


@pytest.mark.parametrize(
    ("nodes", "tasks", "message"),
    [
        ("sn,cpu_milli,gpu\nn,1,1\n", TASKS, "nodes.csv, line 1: missing column memory_mib"),
        (NODES, TASKS.replace("4000", "four"), "line 2: cpu_milli is 'four': must be a number"),
        (
            NODES,
            TASKS.replace("1,300", "1,1300"),
            "line 4: gpu_milli is 1300: must be between 1 and 1000",
        ),
        (NODES, TASKS.replace("8000,1024", "-1,1024"), "line 5: cpu_milli is -1"),
        ("sn,cpu_milli,memory_mib,gpu\nn,1,1,0\n", TASKS, "no node has a GPU"),
        (NODES, "", "missing column name, cpu_milli"),
    ],
)
def test_a_bad_file_is_rejected_with_line_and_reason(
    tmp_path: Path, nodes: str, tasks: str, message: str
) -> None:
    nodes_file, tasks_file = write_trace(tmp_path, nodes, tasks)
    result = run_packing("--nodes", nodes_file, "--pods", tasks_file)
    assert result.exit_code == 1
    assert message in " ".join(result.stderr.split())


def test_missing_trace_is_reported_with_the_options_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KILONOVA_DATA", str(tmp_path))
    result = run_packing()
    assert result.exit_code == 1
    assert "--nodes" in result.stderr
    assert "KILONOVA_DATA" in result.stderr


def test_seeds_must_be_numbers(tmp_path: Path) -> None:
    nodes, tasks = write_trace(tmp_path)
    result = run_packing("--nodes", nodes, "--pods", tasks, "--seeds", "some")
    assert result.exit_code == 2
    assert "'some' is not a list of seeds" in result.stderr


def test_columns_that_are_missing_mean_any_model(tmp_path: Path) -> None:
    nodes, tasks = write_trace(
        tmp_path, tasks="name,cpu_milli,memory_mib,num_gpu,gpu_milli\nt,0,1,1,5\n"
    )
    assert read_tasks(tasks) == (PackingRequest(100, 1 << 20, 1, 5),)
    assert read_nodes(nodes).models == ("B", "A", "")
    assert get_mix_name(tasks) == "tiny"


def test_arrivals_are_drawn_until_enough_is_requested(tmp_path: Path) -> None:
    nodes_file, tasks_file = write_trace(tmp_path)
    nodes, tasks = read_nodes(nodes_file), read_tasks(tasks_file)
    order = order_arrivals(tasks, nodes.capacity, 7)
    assert sorted(order[:5], key=repr) == sorted(tasks, key=repr)
    assert sum(ask.gpu_milli for ask in order[:-1]) < 1.3 * nodes.capacity
    assert order == order_arrivals(tasks, nodes.capacity, 7)
    assert order != order_arrivals(tasks, nodes.capacity, 8)


def test_ours_is_above_fgd_where_devices_run_out_of_cpu(tmp_path: Path) -> None:
    """Some tasks request much CPU, some little: only a mix of both fills nodes."""
    lines = ["sn,cpu_milli,memory_mib,gpu,model"]
    lines += [f"n-{index},64000,262144,8,A" for index in range(24)]
    nodes_file, _ = write_trace(tmp_path, nodes="\n".join(lines))
    nodes = read_nodes(nodes_file)
    kinds = (
        PackingRequest(13_000, 1 << 30, 1),
        PackingRequest(2_000, 1 << 30, 1),
        PackingRequest(8_000, 1 << 30, 1, 500),
    )
    tasks = tuple(Random(1).choices(kinds, k=300))
    orders = [order_arrivals(tasks, nodes.capacity, seed) for seed in range(4)]
    ours = fmean(simulate(nodes, order, FitPolicy(nodes)).at_130 for order in orders)
    fgd = fmean(
        simulate(nodes, order, FragmentationGradientDescent(nodes, tasks)).at_130
        for order in orders
    )
    random = fmean(simulate(nodes, order, RandomPolicy(1)).at_130 for order in orders)
    assert ours > fgd > random


def test_no_more_is_moved_than_the_budget_allows(tmp_path: Path) -> None:
    nodes_file, _ = write_trace(
        tmp_path, nodes="sn,cpu_milli,memory_mib,gpu\n" + "n,64000,9999,8\n" * 4
    )
    nodes = read_nodes(nodes_file)
    shares = tuple(
        PackingRequest(100, 0, 1, milli) for milli in (150, 230, 320, 410, 470, 590) * 50
    )
    order = order_arrivals(shares, nodes.capacity, 1)
    policy = FitPolicy(nodes)
    outcome = simulate(nodes, order, policy, policy)
    assert outcome.moves <= len(order) // 100
    assert outcome.at_130 <= 100


def test_device_fractions_are_those_of_the_optimal_packing() -> None:
    assert compute_device_fractions({500: 7}) == {500: 0.5}
    # Two of 470 leave 60, which no share can use; 810 leaves 190.
    assert compute_device_fractions({470: 10, 810: 5}) == pytest.approx({470: 0.5, 810: 1.0})
    # Few small shares fit beside the large ones at no cost.
    assert compute_device_fractions({300: 2, 700: 5}) == pytest.approx({300: 0.0, 700: 1.0})
    assert compute_device_fractions({}) == {}


def test_upper_bound_is_the_capacity_of_pooled_devices() -> None:
    order = [
        PackingRequest(0, 0, 1, 700),
        PackingRequest(0, 0, 1),
        PackingRequest(0, 0, 1, 700),
        PackingRequest(0, 0, 1, 300),
        PackingRequest(0, 0, 2),
    ]
    outcome = compute_upper_bound(2000, order)
    assert outcome.at_130 == pytest.approx(100.0)
    assert compute_upper_bound(2000, [PackingRequest(0, 0, 1, 600)] * 9).at_130 == pytest.approx(
        60.0
    )
