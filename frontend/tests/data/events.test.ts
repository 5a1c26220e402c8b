import { expect, test } from "vitest";
import { groupEvents } from "../../src/data/events";
import type { EventRow } from "../../src/data/rows";

const event = (id: string, last: number): EventRow => ({
  id,
  type: "Normal",
  reason: id,
  object: "Pod/a/p",
  message: "",
  last,
});

test("events of one second are sorted by their start, newest first", () => {
  const [first, second, third] = [
    "a/p.18b0000000000001ff",
    "a/q.18b0000000000002aa",
    "a/p.18b000000000000300",
  ] as const;
  const later = event("a/a.18b0000000000000", 8);
  for (const order of [
    [first, second, third],
    [third, second, first],
    [second, third, first],
  ]) {
    const rows = [...order.map((id) => event(id, 7)), later];
    expect(groupEvents(rows, false).map((each) => each.id)).toEqual([later.id, third, second, first]);
  }
});

test("events are grouped by type, reason and kind", () => {
  const row = (id: string, object: string, last: number, count?: number) => ({
    id,
    type: "Normal",
    reason: "R",
    object,
    message: id,
    last,
    count,
  });
  const groups = groupEvents([row("1", "Pod/a/x", 1, 3), row("2", "Pod/a/y", 2), row("3", "Node/n", 3)], true);
  expect(groups.map((each) => [each.message, each.count, each.objects])).toEqual([
    ["3", 1, 1],
    ["2", 4, 2],
  ]);
});
