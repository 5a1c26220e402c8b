/** All that can be searched for, as the tables have it now. */
import { apart, counted } from "../format";
import { gangHref, nodeHref, podHref, queueHref, workloadHref } from "../links";
import { pages } from "../pages";
import { allQueues } from "../queues/usual";
import { tables } from "../store";
import { workloads } from "../workloads/rows";
import type { Target } from "./find";

/** Pages first, pods last: among equals the earlier one wins. */
export function* targets(): Generator<Target> {
  for (const page of pages) yield { kind: "Page", name: page.title, detail: `g ${page.key}`, href: () => page.path };
  for (const row of workloads.peek())
    yield { kind: "Workload", name: row.name, detail: `${row.kind} in ${row.namespace}, ${row.state}`, href: () => workloadHref(row.id) };
  for (const queue of allQueues.peek())
    yield { kind: "Queue", name: queue.id, detail: queue.parent ? `below ${queue.parent}` : "", href: () => queueHref(queue.id) };
  for (const node of tables.nodes.peek().values()) {
    const where = [node.zone, node.block, node.rack].filter(Boolean).join(" / ");
    const gpus = node.gpus ? `${counted(node.gpus, "GPU")} ${node.product ?? ""}` : "no GPUs";
    yield { kind: "Node", name: node.id, detail: where ? `${gpus}, ${where}` : gpus, href: () => nodeHref(node.id) };
  }
  for (const gang of tables.gangs.peek().values()) {
    const { namespace, name } = apart(gang.id);
    yield { kind: "Gang", name, detail: `${namespace}, ${gang.phase}`, href: () => gangHref(gang.id) };
  }
  for (const pod of tables.pods.peek().values()) {
    const { namespace, name } = apart(pod.id);
    const detail = pod.node ? `${namespace}, on ${pod.node}` : `${namespace}, ${pod.state}`;
    yield { kind: "Pod", name, detail, href: () => podHref(pod.id) };
  }
}
