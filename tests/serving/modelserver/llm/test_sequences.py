"""Continuous batching: which sequences run, and what each step computes."""

from kilonova.serving.modelserver.llm.blocks import KvBlocks
from kilonova.serving.modelserver.llm.sequences import SequenceScheduler, Step, TokenSequence


def build(*, slots: int = 2, waiting: int = 2, budget: int = 8, blocks: int = 100):
    return SequenceScheduler(KvBlocks(blocks, 4), slots, waiting, budget)


def sequence(tokens: int, max_tokens: int = 4, first: int = 0) -> TokenSequence:
    return TokenSequence(list(range(first, first + tokens)), max_tokens, seed=0)


def compute(scheduler: SequenceScheduler) -> Step:
    step = scheduler.plan_step()
    assert step is not None
    scheduler.complete_step(step, [7] * len(step.receivers))
    return step


def test_prompt_is_computed_in_pieces_beside_running_sequences() -> None:
    scheduler = build()
    short, long = sequence(3), sequence(20, first=100)
    scheduler.add(short)
    scheduler.add(long)
    first = compute(scheduler)
    assert [(each.sequence, each.start, each.end) for each in first.prefills] == [
        (short, 0, 3),
        (long, 0, 5),
    ]
    assert first.receivers == [short]
    second = compute(scheduler)
    assert second.decodes == [short]
    assert [(each.start, each.end) for each in second.prefills] == [(5, 12)]
    assert second.receivers == [short]
    compute(scheduler)
    assert compute(scheduler).receivers == [long, short]
    assert len(short.output) == 4
    assert len(long.output) == 1


def test_sequence_waits_for_a_slot() -> None:
    scheduler = build(slots=1)
    first, second = sequence(3), sequence(3, first=50)
    scheduler.add(first)
    scheduler.add(second)
    assert compute(scheduler).receivers == [first]
    assert list(scheduler.waiting) == [second]
    scheduler.finish(first)
    assert compute(scheduler).receivers == [second]


def test_sequence_waits_for_all_the_blocks_that_it_may_need() -> None:
    scheduler = build(blocks=4)
    first, second = sequence(8, max_tokens=4), sequence(4, max_tokens=4, first=50)
    scheduler.add(first)
    scheduler.add(second)
    compute(scheduler)
    assert scheduler.running == [first]
    scheduler.finish(first)
    compute(scheduler)
    assert scheduler.running == [second]


def test_queue_is_full_when_slots_and_places_are_taken() -> None:
    scheduler = build(slots=1, waiting=1)
    assert not scheduler.is_full
    scheduler.add(sequence(1))
    assert not scheduler.is_full
    compute(scheduler)
    scheduler.add(sequence(1))
    assert scheduler.is_full


def test_prompt_with_a_computed_prefix_begins_behind_it() -> None:
    scheduler = build(budget=100)
    first = sequence(10)
    scheduler.add(first)
    compute(scheduler)
    second = TokenSequence([*range(10), 99], 4, seed=0)
    scheduler.add(second)
    step = compute(scheduler)
    assert [(each.start, each.end) for each in step.prefills] == [(8, 11)]
    assert second.cached == 8


def test_last_token_of_a_cached_prompt_is_computed() -> None:
    scheduler = build(budget=100)
    first, second = sequence(8), sequence(8)
    scheduler.add(first)
    compute(scheduler)
    scheduler.add(second)
    assert [(each.start, each.end) for each in compute(scheduler).prefills] == [(4, 8)]


def test_answer_is_a_prefix_of_the_next_prompt() -> None:
    scheduler = build(budget=100)
    first = sequence(4, max_tokens=8)
    scheduler.add(first)
    for _ in range(6):
        compute(scheduler)
    scheduler.finish(first)
    following = TokenSequence([*first.prompt, *first.output, 1, 2, 3], 4, seed=0)
    scheduler.add(following)
    compute(scheduler)
    assert following.cached == 8  # 4 of the prompt, and 5 of the answer were computed


def test_cancelled_sequences_are_dropped() -> None:
    scheduler = build(slots=1)
    running, waiting = sequence(3), sequence(3, first=50)
    scheduler.add(running)
    scheduler.add(waiting)
    compute(scheduler)
    running.is_cancelled = waiting.is_cancelled = True
    assert scheduler.plan_step() is None
    assert scheduler.blocks.used == 0
