import { expect, test } from "vitest";
import { grouped } from "../src/events";
import type { EventRow } from "../src/rows";

const event = (id: string, last: number): EventRow => ({
  id,
  type: "Normal",
  reason: id,
  object: "Pod/a/p",
  message: "",
  last,
});

test("events of one second come in the order in which they began, the newest first", () => {
  const ids = ["a/p.18b0000000000001ff", "a/q.18b0000000000002aa", "a/p.18b000000000000300"];
  const later = event("a/a.18b0000000000000", 8);
  for (const order of [ids, [...ids].reverse(), [ids[1]!, ids[2]!, ids[0]!]]) {
    const rows = [...order.map((id) => event(id, 7)), later];
    expect(grouped(rows, false).map((each) => each.id)).toEqual([later.id, ids[2], ids[1], ids[0]]);
  }
});
