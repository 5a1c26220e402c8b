/** Where on this page an object of the cluster is shown. */
import { pathOf } from "./router";
import { tables } from "./store";

/** The address of a workload, by its id "Kind/namespace/name". */
export function workloadHref(id: string): string {
  return pathOf("workloads", ...id.split("/"));
}

/** The address of a pod: that of its workload, with the pod named. */
export function podHref(id: string): string | undefined {
  const pod = tables.pods.peek().get(id);
  if (!pod) return undefined;
  // A lone pod is its own workload.
  const lone = pod.workload === `Pod/${id}`;
  return lone ? workloadHref(pod.workload) : `${workloadHref(pod.workload)}?pod=${encodeURIComponent(id)}`;
}

/** The address of a gang: that of its set, or of whom its pods belong to. */
export function gangHref(id: string): string | undefined {
  const gang = tables.gangs.peek().get(id);
  if (!gang) return undefined;
  if (gang.set) return workloadHref(`PodCliqueSet/${gang.set}`);
  const pod = gang.groups.flatMap((group) => group.pods).map((each) => tables.pods.peek().get(each)).find(Boolean);
  return workloadHref(pod?.workload ?? `PodGang/${id}`);
}

/** The address of a node's details. */
export function nodeHref(name: string): string {
  return `/nodes?node=${encodeURIComponent(name)}`;
}

/** The address of a queue's details. */
export function queueHref(name: string): string {
  return pathOf("queues", name);
}

/** The address of an event's object, "Kind/namespace/name" or "Kind/name"; none if it is not shown. */
export function objectHref(object: string): string | undefined {
  const kind = object.slice(0, object.indexOf("/"));
  const id = object.slice(kind.length + 1);
  switch (kind) {
    case "Node":
      return nodeHref(id);
    case "Queue":
      return queueHref(id);
    case "Pod":
      return podHref(id);
    case "PodGang":
      return gangHref(id);
    case "PodClique": {
      const set = tables.cliques.peek().get(id)?.set;
      return set && workloadHref(`PodCliqueSet/${set}`);
    }
    case "ReplicaSet": {
      const made = id.slice(0, id.lastIndexOf("-"));
      return tables.deployments.peek().has(made) ? workloadHref(`Deployment/${made}`) : workloadHref(object);
    }
    case "PodCliqueSet":
    case "Deployment":
    case "StatefulSet":
    case "DaemonSet":
    case "Job":
      return workloadHref(object);
    default:
      return undefined;
  }
}
