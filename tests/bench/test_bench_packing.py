"""The benchmark of packing on a trace so small that one can count."""

from pathlib import Path
from random import Random
from statistics import fmean

import msgspec
import pytest
from typer.testing import CliRunner, Result

from bench.__main__ import app
from bench.packing.ceiling import ceiling, device_parts
from bench.packing.play import play
from bench.packing.policies import Fit, FragmentationGradientDescent, RandomChoice
from bench.packing.traces import arrivals, mix_of, read_nodes, read_tasks
from kilonova.scheduler.core.demand import Ask

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


def trace(tmp_path: Path, nodes: str = NODES, tasks: str = TASKS) -> tuple[Path, Path]:
    paths = tmp_path / "nodes.csv", tmp_path / "openb_pod_list_tiny.csv"
    paths[0].write_text(nodes)
    paths[1].write_text(tasks)
    return paths


def bench(*options: str | Path) -> Result:
    return CliRunner().invoke(app, ["packing", *map(str, options)])


def test_a_table_of_all_policies_is_kept_as_json(tmp_path: Path) -> None:
    nodes, tasks = trace(tmp_path)
    other = tmp_path / "other.csv"
    other.write_text("\n".join(line.rsplit(",", 2)[0] for line in TASKS.splitlines()))
    file = tmp_path / "figures.json"
    options = ("--seeds", "1-2", "--jobs", "1", "--moves", "--json", file)
    result = bench("--nodes", nodes, "--pods", tasks, other, *options)
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
    ("nodes", "tasks", "said"),
    [
        ("sn,cpu_milli,gpu\nn,1,1\n", TASKS, "nodes.csv, line 1: there is no column memory_mib"),
        (NODES, TASKS.replace("4000", "four"), "line 2: cpu_milli is 'four': it must be a number"),
        (
            NODES,
            TASKS.replace("1,300", "1,1300"),
            "line 4: gpu_milli is 1300: it must be 1 to 1000",
        ),
        (NODES, TASKS.replace("8000,1024", "-1,1024"), "line 5: cpu_milli is -1"),
        ("sn,cpu_milli,memory_mib,gpu\nn,1,1,0\n", TASKS, "no node has a GPU"),
        (NODES, "", "there is no column name, cpu_milli"),
    ],
)
def test_a_bad_file_is_refused_with_line_and_reason(
    tmp_path: Path, nodes: str, tasks: str, said: str
) -> None:
    nodes_file, tasks_file = trace(tmp_path, nodes, tasks)
    result = bench("--nodes", nodes_file, "--pods", tasks_file)
    assert result.exit_code == 1
    assert said in " ".join(result.stderr.split())


def test_without_a_trace_it_says_how_to_name_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KILONOVA_DATA", str(tmp_path))
    result = bench()
    assert result.exit_code == 1
    assert "--nodes" in result.stderr
    assert "KILONOVA_DATA" in result.stderr


def test_seeds_must_be_numbers(tmp_path: Path) -> None:
    nodes, tasks = trace(tmp_path)
    result = bench("--nodes", nodes, "--pods", tasks, "--seeds", "some")
    assert result.exit_code == 2
    assert "'some' are no seeds" in result.stderr


def test_columns_that_are_missing_mean_any_model(tmp_path: Path) -> None:
    nodes, tasks = trace(tmp_path, tasks="name,cpu_milli,memory_mib,num_gpu,gpu_milli\nt,0,1,1,5\n")
    assert read_tasks(tasks) == (Ask(100, 1 << 20, 1, 5),)
    assert read_nodes(nodes).models == ("B", "A", "")
    assert mix_of(tasks) == "tiny"


def test_arrivals_are_drawn_until_enough_is_asked_for(tmp_path: Path) -> None:
    nodes_file, tasks_file = trace(tmp_path)
    nodes, tasks = read_nodes(nodes_file), read_tasks(tasks_file)
    order = arrivals(tasks, nodes.capacity, 7)
    assert sorted(order[:5], key=repr) == sorted(tasks, key=repr)
    assert sum(ask.amount for ask in order[:-1]) < 1.3 * nodes.capacity
    assert order == arrivals(tasks, nodes.capacity, 7)
    assert order != arrivals(tasks, nodes.capacity, 8)


def test_ours_is_above_fgd_where_devices_run_out_of_cpu(tmp_path: Path) -> None:
    """Some tasks ask for much CPU, some for little: only together they fill nodes."""
    lines = ["sn,cpu_milli,memory_mib,gpu,model"]
    lines += [f"n-{index},64000,262144,8,A" for index in range(24)]
    nodes_file, _ = trace(tmp_path, nodes="\n".join(lines))
    nodes = read_nodes(nodes_file)
    kinds = (Ask(13_000, 1 << 30, 1), Ask(2_000, 1 << 30, 1), Ask(8_000, 1 << 30, 1, 500))
    tasks = tuple(Random(1).choices(kinds, k=300))
    orders = [arrivals(tasks, nodes.capacity, seed) for seed in range(4)]
    ours = fmean(play(nodes, order, Fit(nodes)).at_130 for order in orders)
    fgd = fmean(
        play(nodes, order, FragmentationGradientDescent(nodes, tasks)).at_130 for order in orders
    )
    chance = fmean(play(nodes, order, RandomChoice(1)).at_130 for order in orders)
    assert ours > fgd > chance


def test_no_more_is_moved_than_the_budget_allows(tmp_path: Path) -> None:
    nodes_file, _ = trace(tmp_path, nodes="sn,cpu_milli,memory_mib,gpu\n" + "n,64000,9999,8\n" * 4)
    nodes = read_nodes(nodes_file)
    shares = tuple(Ask(100, 0, 1, milli) for milli in (150, 230, 320, 410, 470, 590) * 50)
    order = arrivals(shares, nodes.capacity, 1)
    policy = Fit(nodes)
    outcome = play(nodes, order, policy, policy)
    assert outcome.moves <= len(order) // 100
    assert outcome.at_130 <= 100


def test_parts_of_a_device_are_those_of_the_best_packing() -> None:
    assert device_parts({500: 7}) == {500: 0.5}
    # Two of 470 leave 60, which nobody can use; 810 leaves 190.
    assert device_parts({470: 10, 810: 5}) == pytest.approx({470: 0.5, 810: 1.0})
    # The small fit beside the large for nothing, as long as they are few.
    assert device_parts({300: 2, 700: 5}) == pytest.approx({300: 0.0, 700: 1.0})
    assert device_parts({}) == {}


def test_the_ceiling_is_what_loose_devices_hold() -> None:
    order = [Ask(0, 0, 1, 700), Ask(0, 0, 1), Ask(0, 0, 1, 700), Ask(0, 0, 1, 300), Ask(0, 0, 2)]
    outcome = ceiling(2000, order)
    assert outcome.at_130 == pytest.approx(100.0)
    assert ceiling(2000, [Ask(0, 0, 1, 600)] * 9).at_130 == pytest.approx(60.0)
