import { describe, expect, test } from "vitest";
import type { NodeRow, PodRow } from "../../src/data/rows";
import { cellBox, findNeighbour, hitTest } from "../../src/fleet/layout/hit-test";
import { type Layout, layOutFleet } from "../../src/fleet/layout/layout";
import { describeTarget } from "../../src/fleet/target-text";
import { appearanceOf, cpuRequested } from "../../src/nodes/cell-colours";
import { GpuAllocations } from "../../src/nodes/gpu-allocations";
import { gpuState, nodeState } from "../../src/nodes/state";
import { totalsOf } from "../../src/nodes/totals";

function node(id: string, more: Partial<NodeRow> = {}): NodeRow {
  return {
    id,
    ready: true,
    state: "Ready",
    cpu: 64,
    memory: 2 ** 39,
    gpus: 8,
    rack: "rack-0",
    zone: "z1",
    block: "b1",
    ...more,
  };
}

function pod(id: string, on: string, devices: [number, number][], more: Partial<PodRow> = {}): PodRow {
  const allocatedGpus = devices.length ? devices.reduce((sum, [, share]) => sum + share, 0) : (more.gpus ?? 0);
  return {
    id,
    node: on,
    allocatedGpus,
    phase: "Running",
    state: "Running",
    workload: `Job/default/${id.split("/")[1]}`,
    devices,
    ...more,
  };
}

function allocationsOf(nodes: NodeRow[], pods: PodRow[]): GpuAllocations {
  const allocations = new GpuAllocations();
  for (const row of nodes) allocations.onNode(row, undefined);
  for (const row of pods) allocations.onPod(row, undefined);
  allocations.applyChanges();
  return allocations;
}

function large(): NodeRow[] {
  return Array.from({ length: 2000 }, (_, at) => {
    const rack = Math.floor(at / 12);
    return node(`n-${at}`, { zone: `z${Math.floor(rack / 42)}`, block: `b${Math.floor(rack / 10)}`, rack: `r${rack}` });
  });
}

describe("GPU allocations", () => {
  test("a pod received before its node is on the node once that is added", () => {
    const allocations = new GpuAllocations();
    allocations.onPod(pod("default/a", "n1", [[0, 1]]), undefined);
    allocations.onNode(node("n1"), undefined);
    allocations.applyChanges();
    expect(allocations.nodes.get("n1")?.allocated).toBe(1);
  });

  test("a finished pod releases its GPUs", () => {
    const running = pod("default/a", "n1", [[0, 1]]);
    const allocations = allocationsOf([node("n1")], [running]);
    allocations.onPod({ ...running, phase: "Succeeded" }, running);
    expect([...allocations.applyChanges().allocations]).toEqual(["n1"]);
    expect(allocations.nodes.get("n1")?.allocated).toBe(0);
  });

  test("a pod with unknown devices is shown on free GPUs", () => {
    const withoutDevices = pod("default/b", "n1", [], { gpus: 2 });
    const allocations = allocationsOf([node("n1")], [pod("default/a", "n1", [[0, 1]]), withoutDevices]);
    expect(allocations.nodes.get("n1")?.gpus.map((holders) => holders.length)).toEqual([1, 1, 1, 0, 0, 0, 0, 0]);
  });

  test("a change without effect on GPUs is not an allocation change", () => {
    const before = pod("default/a", "n1", [[0, 1]]);
    const allocations = allocationsOf([node("n1")], [before]);
    allocations.onPod({ ...before, restarts: 1 }, before);
    const changes = allocations.applyChanges();
    expect([[...changes.nodes], [...changes.allocations], changes.topology]).toEqual([["n1"], [], false]);
  });

  test("the text names the rack and the owners", () => {
    const allocations = allocationsOf(
      [node("h100-3", { rack: "h100-rack-0" })],
      [
        pod(
          "default/disagg",
          "h100-3",
          Array.from({ length: 8 }, (_, gpu) => [gpu, 1]),
        ),
      ],
    );
    const shown = allocations.nodes.get("h100-3");
    expect(shown && describeTarget(shown, { node: "h100-3" })).toBe(
      "h100-3 in rack h100-rack-0: 8 of 8 GPUs allocated to disagg.",
    );
  });
});

describe("totals and states", () => {
  test("shares, allocated cost and idle cost add up", () => {
    const allocations = allocationsOf(
      [
        node("n1", { price: 2, nodePrice: 16 }),
        node("cpu", { gpus: 0, nodePrice: 3 }),
        node("odd", { gpus: 4 }),
        node("head", { gpus: 0 }),
      ],
      [
        pod(
          "default/a",
          "n1",
          [
            [0, 1],
            [1, 0.5],
          ],
          { cpu: 16 },
        ),
      ],
    );
    const totals = totalsOf(allocations.nodes.values());
    expect([totals.gpus, totals.allocated, totals.spent, totals.idle]).toEqual([12, 1.5, 3, 13]);
    expect([totals.cpuNodes, totals.unpriced, totals.unpricedNodes]).toEqual([3, 4, 1]);
    expect(totals.owners).toEqual([["Job/default/a", 1.5]]);
    const shown = allocations.nodes.get("n1");
    expect(shown && cpuRequested(shown)).toBe(0.25);
  });

  test("one lost GPU does not mark the others as lost", () => {
    const row = node("n1", { lost: [3] });
    expect([nodeState(row), gpuState(row, 3), gpuState(row, 4)]).toEqual(["lost", "lost", "healthy"]);
  });

  test("two holders of a GPU are two segments of its cell, and idle cost is hatched", () => {
    const allocations = allocationsOf(
      [node("n1", { price: 2 })],
      [pod("default/a", "n1", [[0, 0.5]]), pod("default/b", "n1", [[0, 0.25]])],
    );
    const shown = allocations.nodes.get("n1");
    if (!shown) throw new Error("n1 is missing");
    const as = { theme: "dark", owner: "", highestPrice: 2 } as const;
    expect(appearanceOf(shown, { ...as, mode: "owner" }).cells[0]?.map(({ share }) => share)).toEqual([0.5, 0.25]);
    expect(
      appearanceOf(shown, { ...as, mode: "cost" }).cells[0]?.map(({ share, texture }) => [share, texture]),
    ).toEqual([
      [0.75, undefined],
      [0.25, "hatch"],
    ]);
  });
});

describe("layout", () => {
  const desktop = { width: 1084, height: 700 };

  test("two thousand nodes fit the viewport without overlap", () => {
    const layout = layOutFleet(large(), desktop);
    expect(layout.tiles).toHaveLength(2000);
    expect(layout.h * layout.scale).toBeLessThanOrEqual(desktop.height);
    expect(overlaps(layout)).toBe(0);
  });

  test("on a phone nothing is wider than the screen and zones are stacked", () => {
    const layout = layOutFleet(large(), { width: 390, height: 500 });
    expect(layout.w * layout.scale).toBeLessThanOrEqual(391);
    expect(new Set(layout.zones.map((zone) => Math.round(zone.x))).size).toBe(1);
  });

  test("a rack of one NVLink domain has its caption", () => {
    const nodes = Array.from({ length: 18 }, (_, at) => node(`gb200-${at}`, { gpus: 4, nvlinkDomain: "c0" }));
    expect(layOutFleet(nodes, desktop).racks.map((rack) => rack.domain)).toEqual(["NVLink domain · 72 GPUs"]);
  });

  test("a hit test at the centre of a cell finds its GPU", () => {
    const layout = layOutFleet([node("n1", { gpus: 16 }), node("n2")], desktop);
    const tile = layout.byId.get("n1");
    if (!tile) throw new Error("n1 is missing");
    for (let gpu = 0; gpu < 16; gpu++) {
      const box = cellBox(tile, gpu, true);
      expect(hitTest(layout, box.x + box.w / 2, box.y + box.h / 2, true)).toEqual({ node: "n1", gpu });
    }
  });

  test("arrow keys follow the rack, and move from GPU to GPU", () => {
    const layout = layOutFleet([node("n1"), node("n2"), node("n3")], desktop);
    expect(findNeighbour(layout, { node: "n1" }, "down")).toEqual({ node: "n2" });
    expect(findNeighbour(layout, { node: "n1", gpu: 6 }, "right")).toEqual({ node: "n1", gpu: 7 });
    expect(findNeighbour(layout, { node: "n1", gpu: 7 }, "down")).toEqual({ node: "n2", gpu: 7 });
    expect(findNeighbour(layout, { node: "n1" }, "up")).toEqual({ node: "n1" });
  });
});

function overlaps(layout: Layout): number {
  const racks = layout.racks;
  let found = 0;
  racks.forEach((one, at) => {
    for (const other of racks.slice(at + 1)) {
      if (one.x < other.x + other.w && other.x < one.x + one.w && one.y < other.y + other.h && other.y < one.y + one.h)
        found++;
    }
  });
  return found;
}
