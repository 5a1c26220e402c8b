import { expect, test } from "vitest";
import { evenPositions, histogramBuckets, lastValue, stackValues, summarize } from "../../src/charts/data";

test("stacked lines are added to those below, and unknown where one is", () => {
  expect(
    stackValues([
      [1, 2, null],
      [3, null, 5],
      [10, 20, 30],
    ]),
  ).toEqual([
    [1, 2, null],
    [4, null, null],
    [14, null, null],
  ]);
  expect(stackValues([])).toEqual([]);
});

test("the text of a chart has the current, least and greatest value of each line", () => {
  const lines = [
    { title: "Allocated", values: [4, null, 8, 6] },
    { title: "Total", values: [16, 16] },
    { title: "Limit", values: [null] },
  ];
  expect(summarize(lines, String)).toBe("Allocated: 6 now, 4 to 8. Total: 16 now. Limit: unknown.");
  expect(lastValue([1, null])).toBe(1);
  expect(lastValue([])).toBeUndefined();
});

test("the table of a chart has evenly distributed times, newest first", () => {
  expect(evenPositions(3, 5)).toEqual([2, 1, 0]);
  expect(evenPositions(360, 4)).toEqual([359, 239, 120, 0]);
});

test("every value is in one bucket of a histogram", () => {
  const values = [0, 0.5, 0.99, 1, 0.2];
  const found = histogramBuckets(values, 4);
  expect(found.map((bucket) => bucket.count)).toEqual([2, 0, 1, 2]);
  expect(found[0]?.from).toBe(0);
  expect(found.at(-1)?.to).toBe(1);
  expect(histogramBuckets([], 4)).toEqual([]);
  expect(histogramBuckets([0.5, 0.5], 4).map((bucket) => bucket.count)).toEqual([2, 0, 0, 0]);
});

test("buckets of whole numbers are whole", () => {
  const found = histogramBuckets([0, 3, 9, 9], 5);
  expect(found).toEqual([
    { from: 0, to: 1, count: 1 },
    { from: 2, to: 3, count: 1 },
    { from: 4, to: 5, count: 0 },
    { from: 6, to: 7, count: 0 },
    { from: 8, to: 9, count: 2 },
  ]);
  expect(histogramBuckets([7], 10)).toEqual([{ from: 7, to: 7, count: 1 }]);
});
