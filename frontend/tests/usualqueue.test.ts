import { afterEach, expect, test } from "vitest";
import { allQueues } from "../src/queues/usual";
import type { PodRow, QueueRow } from "../src/rows";
import { loaded, tables } from "../src/store";
import { hello } from "../src/stream";

const GPU = "nvidia.com/gpu";
const pod = (id: string, more: Partial<PodRow>): PodRow => ({ id, phase: "Running", state: "Running", node: "n", workload: `Pod/${id}`, ...more });
const served = (...schedulers: string[]): void => {
  hello.value = { version: "1", cluster: "c", actions: false, schedulers, tables: [], now: 0 };
};
const team: QueueRow = { id: "team", weight: 1, ready: true };

afterEach(() => {
  for (const table of Object.values(tables)) table.apply({ table: "", reset: true });
  loaded.value = new Set();
  hello.value = undefined;
});

test("the usual queue is there though nobody made it, with what its pods hold and ask for", () => {
  served("kilonova-scheduler", "default-scheduler");
  loaded.value = new Set(["queues", "gangs", "pods"]);
  tables.queues.apply({ table: "queues", put: [team] });
  tables.gangs.apply({ table: "gangs", put: [{ id: "a/g", phase: "Running", groups: [], queue: "team" }] });
  tables.pods.apply({
    table: "pods",
    put: [
      pod("a/1", { scheduler: "kilonova-scheduler", gpus: 2, cpu: 1.5, ram: 1024 }),
      pod("a/2", { devices: [[0, 0.25], [1, 0.25]] }),
      pod("a/3", { gpus: 4, phase: "Pending", node: undefined }),
      pod("a/4", { gpus: 8, queue: "team" }),
      pod("a/5", { gpus: 8, gang: "a/g" }),
      pod("a/7", { gpus: 8, scheduler: "another" }),
      pod("a/8", { gpus: 8, phase: "Pending", state: "SchedulingGated", node: undefined }),
      pod("a/6", { gpus: 8, phase: "Succeeded" }),
    ],
  });
  expect(allQueues.value).toEqual([
    team,
    { id: "default", weight: 1, ready: true, used: { [GPU]: 2.5, cpu: 1.5, memory: 1024 }, requested: { [GPU]: 6.5, cpu: 1.5, memory: 1024 } },
  ]);
});

test("pods that name no scheduler do not count where another places them", () => {
  served("kilonova-scheduler");
  loaded.value = new Set(["queues", "gangs", "pods"]);
  tables.pods.apply({ table: "pods", put: [pod("a/1", { gpus: 2, scheduler: "kilonova-scheduler" }), pod("a/2", { gpus: 4 })] });
  expect(allQueues.value[0]?.used?.[GPU]).toBe(2);
});

test("a usual queue that somebody made stands as they made it", () => {
  loaded.value = new Set(["queues", "gangs", "pods"]);
  const made = { id: "default", weight: 3, ready: true };
  tables.queues.apply({ table: "queues", put: [made] });
  expect(allQueues.value).toEqual([made]);
});

test("nothing is said of the usual queue before its pods are known", () => {
  loaded.value = new Set(["queues", "gangs"]);
  expect(allQueues.value).toEqual([]);
});
