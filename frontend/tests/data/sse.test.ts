import { expect, test } from "vitest";
import { messageReader } from "../../src/data/sse";

test("server-sent events are parsed across chunk boundaries", () => {
  const read = messageReader();
  expect(read(": still here\n\nevent: rows\nda")).toEqual([]);
  expect(read('ta: {"a":1}\n\nevent: hello\ndata: 2\n\n')).toEqual([
    { event: "rows", data: '{"a":1}' },
    { event: "hello", data: "2" },
  ]);
});
