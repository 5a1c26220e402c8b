import { expect, test } from "vitest";
import type { GangRow, PodRow, SetRow } from "../src/rows";
import { firstSentence, shortWords, stateOf, whyOf, type Parts } from "../src/workloads/states";

const running: PodRow = { id: "a/1", phase: "Running", state: "Running", ready: true, node: "n", workload: "Job/a/b" };
const pending: PodRow = { id: "a/2", phase: "Pending", state: "Pending", workload: "Job/a/b", message: "no room. Really." };
const set: SetRow = { id: "a/b", replicas: 1, cliques: [{ name: "w", replicas: 2, min: 2 }] };
const gang: GangRow = { id: "a/b-0", phase: "Running", groups: [] };
const parts = (some: Partial<Parts>): Parts => ({ gangs: [], cliques: [], pods: [], ...some });

test.each<[string, Partial<Parts>, string]>([
  ["all pods ready", { pods: [running] }, "Running"],
  ["no pod has a node", { pods: [pending] }, "Waiting"],
  ["some have a node", { pods: [running, pending] }, "Partial"],
  ["a pod starts", { pods: [{ ...running, ready: false }] }, "Starting"],
  ["a pod crashes beside a ready one", { pods: [running, { ...running, ready: false, state: "CrashLoopBackOff" }] }, "Degraded"],
  ["all crash", { pods: [{ ...running, ready: false, state: "ImagePullBackOff" }] }, "Failed"],
  ["all succeeded", { pods: [{ ...running, ready: false, phase: "Succeeded", state: "Completed" }] }, "Done"],
  ["a set lacks pods", { set, gangs: [gang], pods: [running] }, "Starting"],
  ["a set's gang has no place", { set, gangs: [{ ...gang, phase: "Pending" }] }, "Waiting"],
  ["a set of none", { set: { ...set, replicas: 0 } }, "Empty"],
  ["all are going", { pods: [{ ...running, state: "Terminating" }] }, "Stopping"],
])("when %s", (_, some, state) => {
  expect(stateOf(parts(some))).toBe(state);
});

test("a gang says why before its pods do", () => {
  const waits = { ...gang, phase: "Pending", waits: "the queue is full" };
  expect(whyOf(parts({ gangs: [waits], pods: [pending] }), "Waiting")).toBe("the queue is full");
  expect(whyOf(parts({ pods: [pending] }), "Waiting")).toBe("no room. Really.");
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
