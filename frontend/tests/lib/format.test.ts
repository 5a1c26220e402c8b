import { expect, test } from "vitest";
import { age, bytes, duration, number } from "../../src/lib/format";

test("durations, ages and amounts are formatted", () => {
  expect([0.05, 2.4, 42, 185, 7800, 270000].map(duration)).toEqual([
    "50 ms",
    "2.4 s",
    "42 s",
    "3 min 5 s",
    "2 h 10 min",
    "3 d 3 h",
  ]);
  expect([5, 65, 7300, 190000].map(age)).toEqual(["5s", "1m", "2h", "2d"]);
  expect([bytes(80 * 2 ** 30), number(12345), number(1.5)]).toEqual(["80 GiB", "12\u202f345", "1.5"]);
});
