import { expect, test } from "vitest";
import { sortRows } from "../../src/ui/sorting";
import { rowOffset } from "../../src/ui/virtual-rows";

const rows = (...ids: string[]) => ids.map((id) => ({ id }));

test("rows added above move the visible ones down", () => {
  expect(rowOffset(rows("a", "b", "c", "d"), rows("x", "y", "a", "b", "c", "d"), 1)).toBe(2);
});

test("a row that moves to the top does not move the others", () => {
  expect(rowOffset(rows("a", "b", "c", "d", "e"), rows("c", "a", "b", "d", "e"), 2)).toBe(0);
  expect(rowOffset(rows("a", "b", "c", "d", "e"), rows("x", "c", "a", "b", "d", "e"), 2)).toBe(1);
});

test("the scroll position is kept if no visible row is left", () => {
  expect(rowOffset(rows("a", "b"), rows("x"), 0)).toBe(0);
});

test("names are sorted numerically, ascending and descending", () => {
  const columns = [{ id: "name", sort: (row: { id: string }) => row.id }];
  const sorted = (order: string) => sortRows(rows("n-10", "n-9"), columns, order).map((row) => row.id);
  expect(sorted("name")).toEqual(["n-9", "n-10"]);
  expect(sorted("-name")).toEqual(["n-10", "n-9"]);
  expect(sorted("")).toEqual(["n-10", "n-9"]);
});
