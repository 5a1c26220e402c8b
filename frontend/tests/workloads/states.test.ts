import { afterEach, expect, test } from "vitest";
import type { PodRow } from "../../src/data/rows";
import { serverInfo } from "../../src/data/stream";
import { firstSentence, isQueued, podTone, shortenText } from "../../src/workloads/states";

const running: PodRow = { id: "a/1", phase: "Running", state: "Running", ready: true, node: "n", workload: "Job/a/b" };

test.each<[string, PodRow, string]>([
  ["is ready", running, "good"],
  ["is starting", { ...running, ready: false }, "busy"],
  ["has no node", { id: "a/2", phase: "Pending", state: "Pending", workload: "Job/a/b" }, "wait"],
  ["cannot run", { ...running, ready: false, state: "CrashLoopBackOff", failing: true }, "bad"],
  ["is terminating", { ...running, state: "Terminating" }, "idle"],
])("a pod that %s", (_, pod, tone) => {
  expect(podTone(pod)).toBe(tone);
});

afterEach(() => {
  serverInfo.value = undefined;
});

test.each<[string, Partial<PodRow>, boolean]>([
  ["names our scheduler", { scheduler: "kilonova-scheduler" }, true],
  ["names no scheduler", {}, false],
  ["names another scheduler", { scheduler: "another" }, false],
  ["is gated", { scheduler: "kilonova-scheduler", state: "SchedulingGated" }, false],
  ["is terminating", { scheduler: "kilonova-scheduler", state: "Terminating" }, false],
  ["has finished", { scheduler: "kilonova-scheduler", phase: "Succeeded" }, false],
])("a pod that %s may count in its queue", (_, more, counts) => {
  const info = { version: "1", cluster: "c", actions: false, tables: [], now: 0 };
  serverInfo.value = { ...info, schedulers: ["kilonova-scheduler"] };
  expect(isQueued({ ...running, ...more })).toBe(counts);
});

test("a pod that names no scheduler counts where Kilonova serves default-scheduler", () => {
  const info = { version: "1", cluster: "c", actions: false, tables: [], now: 0 };
  serverInfo.value = { ...info, schedulers: ["kilonova-scheduler", "default-scheduler"] };
  expect(isQueued(running)).toBe(true);
});

test.each([
  ["16 nvidia.com/gpu in use, 8 nvidia.com/gpu more asked for", "16 GPUs in use, 8 more GPUs asked for"],
  [
    "0/3 nodes: 2 Insufficient nvidia.com/gpu, 1 Insufficient cpu.",
    "0/3 nodes: 2 with too few GPUs, 1 with too little cpu.",
  ],
  [
    "back-off 10s restarting failed container=c pod=p_ns(ae5bb3fb-d4e3-43de-8aac-bc995f79a70f)",
    "Back-off 10s restarting failed container c",
  ],
])("%s is shortened", (long, short) => {
  expect(shortenText(long)).toBe(short);
});

test("a row has the first sentence, shortened", () => {
  expect(firstSentence("queue q may use 16 nvidia.com/gpu: 1 nvidia.com/gpu in use. More.")).toBe(
    "Queue q may use 16 GPUs: 1 GPU in use",
  );
});
