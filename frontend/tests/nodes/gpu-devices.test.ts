import { expect, test } from "vitest";
import type { NodeRow, PodRow } from "../../src/data/rows";
import { GpuAllocations } from "../../src/nodes/gpu-allocations";
import { deviceOf, deviceText, type GpuDevice } from "../../src/nodes/gpu-devices";

const node: NodeRow = {
  id: "n1",
  ready: true,
  state: "Ready,GPULost",
  cpu: 8,
  memory: 1,
  gpus: 4,
  gpuSms: 132,
  mig: true,
  lost: [2],
  devices: [
    { uuid: "GPU-0", pci: "0000:18:00.0" },
    { uuid: "GPU-1", migEnabled: true, instances: [{ uuid: "MIG-4", profile: "1g.10gb", start: 4 }] },
    { uuid: "GPU-2", sms: 114, mig: "", healthy: false, reason: "XID 79" },
  ],
};

function devicesOf(...pods: Partial<PodRow>[]): GpuDevice[] {
  const allocations = new GpuAllocations();
  allocations.onNode(node, undefined);
  for (const each of pods) {
    const pod = { id: "default/p", phase: "Running", state: "Running", workload: "Pod/default/p", node: "n1" };
    allocations.onPod({ ...pod, ...each }, undefined);
  }
  allocations.applyChanges();
  const found = allocations.nodes.get("n1");
  if (!found) throw new Error("no node");
  return found.gpus.map((_, index) => deviceOf(found, index));
}

test("a device has its own facts, and else those of its node", () => {
  const [first, second, third, fourth] = devicesOf();
  expect(first).toMatchObject({ uuid: "GPU-0", pci: "0000:18:00.0", sms: 132, migMode: "disabled", healthy: true });
  expect(second).toMatchObject({ pci: undefined, migMode: "enabled" });
  expect(third).toMatchObject({ sms: 114, migMode: undefined, healthy: false, reason: "XID 79" });
  expect(fourth).toMatchObject({ uuid: undefined, sms: undefined, migMode: undefined, healthy: undefined });
});

test("MIG instances have their holders, also before they are created", () => {
  const [, device] = devicesOf(
    { id: "default/a", devices: [[1, 0.143]], migInstances: [[1, "1g.10gb", 4]] },
    { id: "default/b", devices: [[1, 0.286]], migInstances: [[1, "2g.20gb", 0]] },
  );
  expect(device?.instances.map(({ holder, ...instance }) => [holder?.id, instance])).toEqual([
    ["default/b", { uuid: undefined, profile: "2g.20gb", start: 0 }],
    ["default/a", { uuid: "MIG-4", profile: "1g.10gb", start: 4 }],
  ]);
  expect(devicesOf()[1]?.instances).toEqual([{ uuid: "MIG-4", profile: "1g.10gb", start: 4, holder: undefined }]);
});

test("the text of a device has what is known", () => {
  const [first, second, , fourth] = devicesOf();
  expect(first && deviceText(first)).toBe("PCI 0000:18:00.0, 132 SMs, MIG disabled");
  expect(second && deviceText(second)).toBe("132 SMs, MIG enabled");
  expect(fourth && deviceText(fourth)).toBe("");
});
