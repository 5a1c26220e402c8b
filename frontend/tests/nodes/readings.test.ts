import { expect, test } from "vitest";
import type { NodeRow } from "../../src/data/rows";
import { appearanceOf } from "../../src/nodes/cell-colours";
import { GpuAllocations } from "../../src/nodes/gpu-allocations";
import { readingText } from "../../src/nodes/text";
import { totalsOf } from "../../src/nodes/totals";

const node: NodeRow = { id: "n1", ready: true, state: "Ready", cpu: 8, memory: 1, gpus: 2, gpuMemory: 81_920 };

test("the text of a reading has what is measured", () => {
  const reading = { index: 0, utilisation: 0.83, memory: 40_960, power: 512.4, temperature: 61 };
  expect(readingText(reading, 81_920)).toBe("83 % busy, 40 of 80 GiB, 512 W, 61 °C");
  expect(readingText({ index: 0, memory: 1024 }, undefined)).toBe("1 GiB");
  expect(readingText({ index: 0 }, undefined)).toBe("");
});

test("readings of a node are shown until they end", () => {
  const allocations = new GpuAllocations();
  allocations.onNode(node, undefined);
  allocations.onReadings({ id: "n1", gpus: [{ index: 1, utilisation: 0.5, power: 300 }] }, undefined);
  allocations.onReadings({ id: "unknown", gpus: [] }, undefined);
  expect(allocations.applyChanges().nodes).toEqual(new Set(["n1"]));
  const shown = [...allocations.nodes.values()];
  const context = { mode: "usage", theme: "dark", owner: "", highestPrice: 1 } as const;
  const [first] = shown;
  if (!first) throw new Error("no node");
  expect(appearanceOf(first, context).cells.map((cell) => cell.length)).toEqual([0, 1]);
  expect(totalsOf(shown)).toMatchObject({ utilisation: 0.5, measured: 1, power: 300 });
  allocations.onReadings(undefined, { id: "n1", gpus: [] });
  expect(totalsOf(shown)).toMatchObject({ utilisation: undefined, measured: 0, power: undefined });
});
