import { expect, test } from "vitest";
import { containersOf, type PodObject } from "../../src/pods/containers";
import { appendLines } from "../../src/pods/log-buffer";

const pod: PodObject = {
  spec: {
    containers: [{ name: "main", image: "registry.example.com/worker:1" }, { name: "late" }],
    initContainers: [{ name: "fetch" }, { name: "proxy", restartPolicy: "Always" }],
  },
  status: {
    containerStatuses: [
      {
        name: "main",
        restartCount: 2,
        state: { waiting: { reason: "CrashLoopBackOff", message: "back-off 20s" } },
        lastState: { terminated: { exitCode: 3, reason: "Error" } },
      },
    ],
    initContainerStatuses: [
      { name: "fetch", state: { terminated: { exitCode: 0, reason: "Completed" } } },
      { name: "proxy", ready: true, state: { running: {} } },
    ],
  },
};

test("a container has its state, its previous run and its restarts", () => {
  const [main, late, fetch, proxy] = containersOf(pod);
  expect(main).toMatchObject({
    state: "CrashLoopBackOff",
    tone: "bad",
    message: "back-off 20s",
    last: "Error, exit code 3",
    restarts: 2,
    ready: false,
    hasLog: true,
  });
  expect(late).toMatchObject({ state: "Waiting", tone: "wait", last: "", hasLog: false });
  expect(fetch).toMatchObject({ role: "init", state: "Completed", tone: "idle" });
  expect(proxy).toMatchObject({ role: "sidecar", state: "Running", tone: "good", ready: true });
  expect(containersOf({})).toEqual([]);
});

test("the newest whole lines of a long log are kept", () => {
  expect(appendLines("a\nb", "c\n")).toBe("a\nbc\n");
  const lines = Array.from({ length: 6000 }, (_, at) => `line ${at}\n`).join("");
  const kept = appendLines("", lines);
  expect(kept.startsWith("line 1000\n")).toBe(true);
  expect(kept.endsWith("line 5999\n")).toBe(true);
  const wide = appendLines(`${"x".repeat(900_000)}\n`, `${"y".repeat(200_000)}\n`);
  expect(wide).toBe(`${"y".repeat(200_000)}\n`);
});
