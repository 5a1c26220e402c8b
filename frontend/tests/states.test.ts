import { expect, test } from "vitest";
import type { PodRow } from "../src/rows";
import { firstSentence, podTone, shortWords } from "../src/workloads/states";

const running: PodRow = { id: "a/1", phase: "Running", state: "Running", ready: true, node: "n", workload: "Job/a/b" };

test.each<[string, PodRow, string]>([
  ["is ready", running, "good"],
  ["starts", { ...running, ready: false }, "busy"],
  ["has no node", { id: "a/2", phase: "Pending", state: "Pending", workload: "Job/a/b" }, "wait"],
  ["cannot run", { ...running, ready: false, state: "CrashLoopBackOff", broken: true }, "bad"],
  ["leaves", { ...running, state: "Terminating" }, "idle"],
])("a pod that %s", (_, pod, tone) => {
  expect(podTone(pod)).toBe(tone);
});

test.each([
  ["16 nvidia.com/gpu in use, 8 nvidia.com/gpu more asked for", "16 GPUs in use, 8 more GPUs asked for"],
  ["0/3 nodes: 2 Insufficient nvidia.com/gpu, 1 Insufficient cpu.", "0/3 nodes: 2 with too few GPUs, 1 with too little cpu."],
  ["back-off 10s restarting failed container=c pod=p_ns(ae5bb3fb-d4e3-43de-8aac-bc995f79a70f)", "Back-off 10s restarting failed container c"],
])("%s is said in short words", (long, short) => {
  expect(shortWords(long)).toBe(short);
});

test("a row has the first sentence, in short words", () => {
  expect(firstSentence("queue q may use 16 nvidia.com/gpu: 1 nvidia.com/gpu in use. More.")).toBe("Queue q may use 16 GPUs: 1 GPU in use");
});
