import { expect, test } from "vitest";
import type { Column } from "../../src/data/description-types";
import { fieldValue, fillTemplate, formatValue, holds, matchesText, sortKey } from "../../src/described/fields";

const row = { id: "team/w1", state: "Running", size: 2048, created: 100, tags: ["a", "b"], ready: true };

function column(field: string, format: Column["format"] = "text"): Column {
  return { field, title: field, format, tones: {}, link: "", filter: false, width: "", shown: "always" };
}

test("parts of the id are fields, unless the row has them", () => {
  expect(fieldValue(row, "name")).toBe("w1");
  expect(fieldValue(row, "namespace")).toBe("team");
  expect(fieldValue({ id: "Job/team/train" }, "kind")).toBe("Job");
  expect(fieldValue({ id: "n1" }, "namespace")).toBe("");
  expect(fieldValue({ id: "n1", name: "own" }, "name")).toBe("own");
});

test("values are formatted as their column says", () => {
  expect(formatValue(2048, "bytes")).toBe("2 KiB");
  expect(formatValue(0.25, "meter")).toBe("25 %");
  expect(formatValue(undefined, "flag")).toBe("no");
  expect(formatValue(["a", "b"], "list")).toBe("a, b");
  expect(formatValue(40, "age", 100)).toBe("1m");
  expect(formatValue(undefined, "number")).toBe("");
  expect(formatValue("odd", "number")).toBe("odd");
});

test("a filter matches words in the id and in shown columns", () => {
  const columns = [column("state"), column("size", "bytes")];
  expect(matchesText(row, columns, "")).toBe(true);
  expect(matchesText(row, columns, "w1 running 2")).toBe(true);
  expect(matchesText(row, columns, "w1 failed")).toBe(false);
});

test("rows are sorted by number, newest first, unknown last", () => {
  expect(sortKey(row, column("size", "bytes"))).toBe(2048);
  expect(sortKey(row, column("created", "age"))).toBe(-100);
  expect(sortKey({ id: "x" }, column("created", "age"))).toBeGreaterThan(0);
  expect(sortKey(row, column("state", "state"))).toBe("Running");
});

test("a template without all of its values is omitted", () => {
  expect(fillTemplate("{state} in {namespace}", row)).toBe("Running in team");
  expect(fillTemplate("on {node}", row)).toBeUndefined();
});

test("actions apply where their field is true, or false", () => {
  expect(holds("", row)).toBe(true);
  expect(holds("ready", row)).toBe(true);
  expect(holds("!ready", row)).toBe(false);
  expect(holds("!cooked", row)).toBe(true);
});
