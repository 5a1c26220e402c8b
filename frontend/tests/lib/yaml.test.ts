import { expect, test } from "vitest";
import { yaml } from "../../src/lib/yaml";

test("objects are formatted as YAML", () => {
  const object = { a: "1", b: [{ c: true, d: [] }, "x: y"], e: { f: null }, g: "two\nlines" };
  expect(yaml(object)).toBe('a: "1"\nb:\n- c: true\n  d: []\n- "x: y"\ne:\n  f: null\ng: |\n  two\n  lines');
});
