import { describe, expect, test } from "vitest";
import { cpuRequested, lookOf } from "../src/fleet/colouring";
import { cellBox, neighbour, spotAt } from "../src/fleet/hit";
import { Holdings } from "../src/fleet/holdings";
import { layOut, type Layout } from "../src/fleet/layout";
import { gpuState, nodeState } from "../src/fleet/state";
import { totalsOf } from "../src/fleet/totals";
import { describe as inWords } from "../src/fleet/words";
import type { NodeRow, PodRow } from "../src/rows";

function node(id: string, more: Partial<NodeRow> = {}): NodeRow {
  return { id, ready: true, state: "Ready", cpu: 64, ram: 2 ** 39, gpus: 8, rack: "rack-0", zone: "z1", block: "b1", ...more };
}

function pod(id: string, on: string, devices: [number, number][], more: Partial<PodRow> = {}): PodRow {
  const held = devices.length ? devices.reduce((sum, [, share]) => sum + share, 0) : (more.gpus ?? 0);
  return { id, node: on, held, phase: "Running", state: "Running", workload: `Job/default/${id.split("/")[1]}`, devices, ...more };
}

function holdingsOf(nodes: NodeRow[], pods: PodRow[]): Holdings {
  const holdings = new Holdings();
  for (const row of nodes) holdings.node(row, undefined);
  for (const row of pods) holdings.pod(row, undefined);
  holdings.take();
  return holdings;
}

function large(): NodeRow[] {
  return Array.from({ length: 2000 }, (_, at) => {
    const rack = Math.floor(at / 12);
    return node(`n-${at}`, { zone: `z${Math.floor(rack / 42)}`, block: `b${Math.floor(rack / 10)}`, rack: `r${rack}` });
  });
}

describe("who holds what", () => {
  test("a pod told of before its node is on it once the node comes", () => {
    const holdings = new Holdings();
    holdings.pod(pod("default/a", "n1", [[0, 1]]), undefined);
    holdings.node(node("n1"), undefined);
    holdings.take();
    expect(holdings.nodes.get("n1")?.held).toBe(1);
  });

  test("a finished pod gives its GPUs back", () => {
    const running = pod("default/a", "n1", [[0, 1]]);
    const holdings = holdingsOf([node("n1")], [running]);
    holdings.pod({ ...running, phase: "Succeeded" }, running);
    expect([...holdings.take().given]).toEqual(["n1"]);
    expect(holdings.nodes.get("n1")?.held).toBe(0);
  });

  test("a pod whose devices are not known is shown on free GPUs", () => {
    const counted = pod("default/b", "n1", [], { gpus: 2 });
    const holdings = holdingsOf([node("n1")], [pod("default/a", "n1", [[0, 1]]), counted]);
    expect(holdings.nodes.get("n1")?.gpus.map((holders) => holders.length)).toEqual([1, 1, 1, 0, 0, 0, 0, 0]);
  });

  test("a change that gives or takes no GPU is not news", () => {
    const before = pod("default/a", "n1", [[0, 1]]);
    const holdings = holdingsOf([node("n1")], [before]);
    holdings.pod({ ...before, restarts: 1 }, before);
    const changes = holdings.take();
    expect([[...changes.nodes], [...changes.given], changes.shape]).toEqual([["n1"], [], false]);
  });

  test("words name the rack and the owners", () => {
    const holdings = holdingsOf([node("h100-3", { rack: "h100-rack-0" })], [pod("default/disagg", "h100-3", Array.from({ length: 8 }, (_, gpu) => [gpu, 1]))]);
    const shown = holdings.nodes.get("h100-3");
    expect(shown && inWords(shown, { node: "h100-3" })).toBe("h100-3 in rack h100-rack-0: 8 of 8 GPUs held by disagg.");
  });
});

describe("numbers and states", () => {
  test("shares, money in use and idle money add up", () => {
    const holdings = holdingsOf([node("n1", { price: 2 }), node("cpu", { gpus: 0 })], [pod("default/a", "n1", [[0, 1], [1, 0.5]], { cpu: 16 })]);
    const totals = totalsOf(holdings.nodes.values());
    expect([totals.gpus, totals.held, totals.spent, totals.idle]).toEqual([8, 1.5, 3, 13]);
    expect(totals.owners).toEqual([["Job/default/a", 1.5]]);
    const shown = holdings.nodes.get("n1");
    expect(shown && cpuRequested(shown)).toBe(0.25);
  });

  test("one lost GPU does not make the others look lost", () => {
    const row = node("n1", { lost: [3] });
    expect([nodeState(row), gpuState(row, 3), gpuState(row, 4)]).toEqual(["lost", "lost", "healthy"]);
  });

  test("two holders of a GPU are two segments of its cell, and idle money is hatched", () => {
    const holdings = holdingsOf([node("n1", { price: 2 })], [pod("default/a", "n1", [[0, 0.5]]), pod("default/b", "n1", [[0, 0.25]])]);
    const shown = holdings.nodes.get("n1");
    if (!shown) throw new Error("n1 is missing");
    const as = { theme: "dark", owner: "", dearest: 2 } as const;
    expect(lookOf(shown, { ...as, mode: "owner" }).cells[0]?.map(({ share }) => share)).toEqual([0.5, 0.25]);
    expect(lookOf(shown, { ...as, mode: "cost" }).cells[0]?.map(({ share, texture }) => [share, texture])).toEqual([[0.75, undefined], [0.25, "hatch"]]);
  });
});

describe("where things stand", () => {
  const desktop = { width: 1084, height: 700 };

  test("two thousand nodes are all in the window at once, and none covers another", () => {
    const layout = layOut(large(), desktop);
    expect(layout.tiles).toHaveLength(2000);
    expect(layout.h * layout.scale).toBeLessThanOrEqual(desktop.height);
    expect(overlaps(layout)).toBe(0);
  });

  test("on a phone nothing is wider than the screen and zones stack", () => {
    const layout = layOut(large(), { width: 390, height: 500 });
    expect(layout.w * layout.scale).toBeLessThanOrEqual(391);
    expect(new Set(layout.zones.map((zone) => Math.round(zone.x))).size).toBe(1);
  });

  test("a rack of one NVLink domain says so", () => {
    const trays = Array.from({ length: 18 }, (_, at) => node(`gb200-${at}`, { gpus: 4, clique: "c0" }));
    expect(layOut(trays, desktop).racks.map((rack) => rack.domain)).toEqual(["NVLink domain · 72 GPUs"]);
  });

  test("the middle of each GPU's cell is that GPU", () => {
    const layout = layOut([node("n1", { gpus: 16 }), node("n2")], desktop);
    const tile = layout.byId.get("n1");
    if (!tile) throw new Error("n1 is missing");
    for (let gpu = 0; gpu < 16; gpu++) {
      const box = cellBox(tile, gpu, true);
      expect(spotAt(layout, box.x + box.w / 2, box.y + box.h / 2, true)).toEqual({ node: "n1", gpu });
    }
  });

  test("arrow keys follow the rack, and go on from GPU to GPU", () => {
    const layout = layOut([node("n1"), node("n2"), node("n3")], desktop);
    expect(neighbour(layout, { node: "n1" }, "down")).toEqual({ node: "n2" });
    expect(neighbour(layout, { node: "n1", gpu: 6 }, "right")).toEqual({ node: "n1", gpu: 7 });
    expect(neighbour(layout, { node: "n1", gpu: 7 }, "down")).toEqual({ node: "n2", gpu: 7 });
    expect(neighbour(layout, { node: "n1" }, "up")).toEqual({ node: "n1" });
  });
});

function overlaps(layout: Layout): number {
  const racks = layout.racks;
  let found = 0;
  racks.forEach((one, at) => {
    for (const other of racks.slice(at + 1)) {
      if (one.x < other.x + other.w && other.x < one.x + one.w && one.y < other.y + other.h && other.y < one.y + one.h) found++;
    }
  });
  return found;
}
