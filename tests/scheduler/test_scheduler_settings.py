"""What settings make of the scheduler."""

from kilonova.scheduler.scheduler import scoring_of


def test_weights_count_more_than_usual_and_a_part_without_weight_is_left_out() -> None:
    usual = {part.name: part.weight for part in scoring_of({}).parts}
    assert (usual["topology"], usual["fit"], usual["balance"]) == (40, 35, 25)
    changed = {part.name: part.weight for part in scoring_of({"fit": 0, "balance": 70}).parts}
    assert changed == {name: weight for name, weight in usual.items() if name != "fit"} | {
        "balance": 70
    }
