import { beforeEach, expect, test, vi } from "vitest";
import { gangHref, objectHref } from "../../src/app/links";
import { applyChange } from "../../src/data/store";

vi.hoisted(() => {
  const page = { path: "/services", title: "Services", table: "services", columns: [] };
  const table = { name: "services", kind: "Service", workloadKind: "Service.example.com" };
  const text = JSON.stringify({ tables: [table], pages: [page], sections: {}, actions: [], search: [] });
  vi.stubGlobal("document", { getElementById: () => ({ textContent: text }) });
  vi.stubGlobal("location", new URL("http://console/"));
  vi.stubGlobal("requestAnimationFrame", (flush: () => void) => flush());
});

function put(table: string, ...rows: object[]): void {
  applyChange({ table, reset: true, upserted: rows, deleted: [], at: 0 } as unknown as Parameters<
    typeof applyChange
  >[0]);
}

beforeEach(() => {
  const set = { replicas: 1, cliques: [] };
  put(
    "gangs",
    ...["own", "listed", "gone", "chat"].map((name) => ({ id: `x/${name}-0`, set: `x/${name}`, groups: [] })),
  );
  put(
    "sets",
    { id: "x/own", ...set },
    { id: "x/listed", ...set, workload: "Service.example.com/x/s" },
    { id: "x/gone", ...set, workload: "Service.example.com/x/gone" },
    { id: "x/chat", ...set, workload: "Chat.example.com/x/c" },
  );
  put("deployments", { id: "x/web", kind: "Deployment", replicas: 1, workload: "Chat.example.com/x/c" });
  put("services", { id: "x/s" });
});

test.each([
  ["of a set that is a workload", "own", "/workloads/PodCliqueSet/x/own"],
  ["of a workload with a page of its own", "listed", "/services/x/s"],
  ["of a workload that its own page does not list", "gone", "/workloads/Service.example.com/x/gone"],
  ["of a workload without a page of its own", "chat", "/workloads/Chat.example.com/x/c"],
])("a gang %s links to it", (_, name, href) => {
  expect(gangHref(`x/${name}-0`)).toBe(href);
  expect(objectHref(`PodGang/x/${name}-0`)).toBe(href);
  expect(objectHref(`PodCliqueSet/x/${name}`)).toBe(href);
});

test("an object that makes pods for another one links to that", () => {
  expect(objectHref("Deployment/x/web")).toBe("/workloads/Chat.example.com/x/c");
  expect(objectHref("Deployment/x/other")).toBe("/workloads/Deployment/x/other");
});
