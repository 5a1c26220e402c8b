import { expect, test } from "vitest";
import type { GangRow, PodRow } from "../../src/data/rows";
import { commonPrefix, formatTick, ticks, timelineOf } from "../../src/workloads/timeline";

const pod = (id: string, times: Partial<PodRow>): PodRow => ({
  id,
  phase: "Running",
  state: "Running",
  workload: "PodCliqueSet/a/b",
  ...times,
});
const gang = (times: Partial<GangRow>): GangRow => ({
  id: "a/b-0",
  phase: "Running",
  groups: [{ name: "b-0-w", min: 2, pods: ["a/2", "a/1"] }],
  ...times,
});

test("a ready gang shows each phase of its pods, in the order of its groups", () => {
  const one = pod("a/1", { created: 101, scheduled: 103, started: 104, readyAt: 110 });
  const two = pod("a/2", { created: 101, scheduled: 103, started: 106, readyAt: 120 });
  const timeline = timelineOf(gang({ created: 100, scheduled: 103, readyAt: 120 }), [one, two], 9999);
  expect(timeline?.milestones).toEqual([
    { name: "applied", at: 100 },
    { name: "placed", at: 103 },
    { name: "ready", at: 120 },
  ]);
  expect([timeline?.from, timeline?.to]).toEqual([100, 120]);
  expect(timeline?.bars.map((bar) => bar.pod.id)).toEqual(["a/2", "a/1"]);
  expect(timeline?.bars[0]?.spans.map((each) => [each.phase, each.from, each.to, each.open])).toEqual([
    ["pending", 101, 103, false],
    ["starting", 103, 106, false],
    ["unready", 106, 120, false],
  ]);
});

test("a gang is placed when enough of its pods are, however late its condition is", () => {
  const pods = ["a/1", "a/2"].map((id) => pod(id, { created: 100, scheduled: 101 }));
  const timeline = timelineOf(gang({ created: 100, scheduled: 103 }), pods, 110);
  expect(timeline?.milestones.at(-1)).toEqual({ name: "placed", at: 101 });
});

test("a phase in progress lasts until now", () => {
  const timeline = timelineOf(gang({ created: 100, phase: "Pending" }), [pod("a/1", { created: 101 })], 130);
  expect(timeline?.milestones.map((each) => each.name)).toEqual(["applied"]);
  expect(timeline?.bars[0]?.spans).toEqual([{ phase: "pending", from: 101, to: 130, open: true }]);
});

test("a replacement created much later does not extend the startup", () => {
  const late = pod("a/3", { created: 5000, scheduled: 5001, started: 5002, readyAt: 5003 });
  const timeline = timelineOf(gang({ created: 100, scheduled: 101, readyAt: 110 }), [late], 9999);
  expect(timeline).toMatchObject({ to: 110, bars: [], later: 1 });
});

test("pods without a gang created after the others were ready are not part of the startup", () => {
  const times = (created: number) => ({ created, scheduled: created + 1, started: created + 2, readyAt: created + 4 });
  const pods = [pod("a/1", times(100)), pod("a/2", times(103)), pod("a/3", times(900))];
  const timeline = timelineOf(undefined, pods, 9999);
  expect(timeline).toMatchObject({ from: 100, to: 107, later: 1 });
  expect(timeline?.milestones.at(-1)).toEqual({ name: "ready", at: 107 });
});

test("a finished pod has a run phase that ends the timeline", () => {
  const over = pod("a/1", { created: 100, scheduled: 101, started: 102, finished: 160 });
  const timeline = timelineOf(undefined, [over], 9999);
  expect(timeline?.bars[0]?.spans.at(-1)).toEqual({ phase: "running", from: 102, to: 160, open: false });
  expect(timeline?.milestones.at(-1)).toEqual({ name: "ended", at: 160 });
});

test("axis labels have the unit of the step", () => {
  expect([0, 30, 90].map((tick) => formatTick(tick, 30))).toEqual(["0", "30 s", "90 s"]);
  expect(formatTick(2700, 900)).toBe("45 min");
});

test.each([
  [["web-5d-ab", "web-5d-cd"], "web-5d-"],
  [["web-5d-ab", "web-5d-abc"], "web-5d-"],
  [["a", "b"], ""],
  [["alone-1"], ""],
])("common prefix of %j", (names, prefix) => {
  expect(commonPrefix(names)).toBe(prefix);
});

test("an axis has few and round ticks", () => {
  expect(ticks(24)).toEqual([0, 5, 10, 15, 20]);
  expect(ticks(3600).at(-1)).toBe(3600);
});
