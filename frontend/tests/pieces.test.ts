import { expect, test } from "vitest";
import { grouped } from "../src/events";
import { age, bytes, duration, number } from "../src/format";
import { lineage, treeOf } from "../src/queues/tree";
import { find, type Target } from "../src/search/find";
import type { Trouble } from "../src/rows";
import { messageReader } from "../src/sse";
import { noticesOf } from "../src/troubles";
import { yaml } from "../src/yaml";

test("durations, ages and amounts in words", () => {
  expect([0.05, 2.4, 42, 185, 7800, 270000].map(duration)).toEqual(["50 ms", "2.4 s", "42 s", "3 min 5 s", "2 h 10 min", "3 d 3 h"]);
  expect([5, 65, 7300, 190000].map(age)).toEqual(["5s", "1m", "2h", "2d"]);
  expect([bytes(80 * 2 ** 30), number(12345), number(1.5)]).toEqual(["80 GiB", "12\u202f345", "1.5"]);
});

test("events of the stream come whole, however they are cut", () => {
  const read = messageReader();
  expect(read(": still here\n\nevent: rows\nda")).toEqual([]);
  expect(read('ta: {"a":1}\n\nevent: hello\ndata: 2\n\n')).toEqual([{ event: "rows", data: '{"a":1}' }, { event: "hello", data: "2" }]);
});

test("queues stand below their parents; a lost parent or a ring loses nobody", () => {
  const queue = (id: string, parent?: string) => ({ id, parent, weight: 1, ready: true });
  const queues = [queue("b", "a"), queue("a"), queue("x", "gone"), queue("r", "s"), queue("s", "r")];
  expect(treeOf(queues).map((each) => [each.queue.id, each.depth])).toEqual([["a", 0], ["b", 1], ["x", 0], ["r", 0], ["s", 1]]);
  expect([...lineage("s", new Map(queues.map((each) => [each.id, each])))]).toEqual(["s", "r"]);
});

test("what begins with the words is found before what has them inside", () => {
  const target = (name: string): Target => ({ kind: "Pod", name, detail: "in demo", href: () => undefined });
  const names = ["my-chat", "xchat", "chat-0", "chat", "other"].map(target);
  expect(find(names, "chat").map((each) => each.name)).toEqual(["chat", "chat-0", "my-chat", "xchat"]);
  expect(find(names, "chat demo")).toHaveLength(4);
});

test("events are put together by type, reason and kind", () => {
  const event = (id: string, object: string, last: number, count?: number) => ({ id, type: "Normal", reason: "R", object, message: id, last, count });
  const groups = grouped([event("1", "Pod/a/x", 1, 3), event("2", "Pod/a/y", 2), event("3", "Node/n", 3)], true);
  expect(groups.map((each) => [each.message, each.count, each.objects])).toEqual([["3", 1, 1], ["2", 4, 2]]);
});

test("tables that cannot be read for the same reason are told together, with the age of what is shown", () => {
  const trouble = (table: Trouble["table"], what: string, reason: Trouble["reason"]): Trouble => ({ table, what, reason, message: `${what}!`, since: 1000 });
  const troubles = [trouble("sets", "podcliquesets", "forbidden"), trouble("gangs", "podgangs", "forbidden"), trouble("pods", "pods", "refused"), trouble("events", "events", "forbidden")];
  const [refusal, rights, ...more] = noticesOf(troubles, ["pods", "sets", "gangs"], new Set(["gangs"]), 1060);
  expect(more).toEqual([]);
  expect(rights?.title).toBe("No right to read podcliquesets and podgangs");
  expect(rights?.advice).toMatch(/What you see of podgangs is as it was at [\d:]+\.$/);
  expect(rights?.said).toEqual(["podcliquesets!", "podgangs!"]);
  expect(refusal).toEqual({ title: "The cluster does not give pods", advice: "The console tries again by itself.", said: ["pods!"] });
  expect(noticesOf(troubles, ["nodes"], new Set(), 1060)).toEqual([]);
});

test("objects read as YAML", () => {
  const object = { a: "1", b: [{ c: true, d: [] }, "x: y"], e: { f: null }, g: "two\nlines" };
  expect(yaml(object)).toBe('a: "1"\nb:\n- c: true\n  d: []\n- "x: y"\ne:\n  f: null\ng: |\n  two\n  lines');
});
