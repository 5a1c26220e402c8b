import { expect, test } from "vitest";
import { queuePath, treeOf } from "../../src/queues/tree";

test("queues are below their parents; a missing parent or a cycle hides none", () => {
  const queue = (id: string, parent?: string) => ({ id, parent, weight: 1, ready: true, observed: true });
  const queues = [queue("b", "a"), queue("a"), queue("x", "gone"), queue("r", "s"), queue("s", "r")];
  expect(treeOf(queues).map((each) => [each.queue.id, each.depth])).toEqual([
    ["a", 0],
    ["b", 1],
    ["x", 0],
    ["r", 0],
    ["s", 1],
  ]);
  expect([...queuePath("s", new Map(queues.map((each) => [each.id, each])))]).toEqual(["s", "r"]);
});
