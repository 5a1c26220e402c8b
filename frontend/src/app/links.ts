/** Addresses of the views that show an object of the cluster. */

import { pageOfTable, tableOfKind, tableOfWorkloadKind } from "../data/description";
import { tableNamed, tables } from "../data/store";
import { pathOf } from "./router";

/** The address of a workload, by its id "Kind/namespace/name". */
export function workloadHref(id: string): string {
  return pathOf("workloads", ...id.split("/"));
}

/** The page that a component contributes for a workload; undefined if there is none, or it does not list the workload. */
export function ownPageHref(workload: string): string | undefined {
  const [kind = "", ...rest] = workload.split("/");
  const table = tableOfWorkloadKind(kind);
  const id = rest.join("/");
  return table && pageOfTable(table) && tableNamed(table).peek().has(id) ? tableHref(table, id) : undefined;
}

/** The address of an object that makes pods, "Kind/namespace/name": that of the workload it makes them for. */
function makerHref(maker: string): string {
  const [kind = "", ...rest] = maker.split("/");
  const table = MAKERS[kind as keyof typeof MAKERS];
  const workload = table && tables[table].peek().get(rest.join("/"))?.workload;
  return workload ? (ownPageHref(workload) ?? workloadHref(workload)) : workloadHref(maker);
}

/** Tables of objects whose pods may belong to another workload, by kind. */
const MAKERS = { PodCliqueSet: "sets", Deployment: "deployments", StatefulSet: "statefulsets", Job: "jobs" } as const;

/** The address of a pod: that of its workload, with the pod in the query. */
export function podHref(id: string): string | undefined {
  const pod = tables.pods.peek().get(id);
  if (!pod) return undefined;
  // A standalone pod is its own workload.
  const standalone = pod.workload === `Pod/${id}`;
  return standalone ? workloadHref(pod.workload) : `${workloadHref(pod.workload)}?pod=${encodeURIComponent(id)}`;
}

/** The address of a gang: that of the workload of its PodCliqueSet, or of the workload that owns its pods. */
export function gangHref(id: string): string | undefined {
  const gang = tables.gangs.peek().get(id);
  if (!gang) return undefined;
  if (gang.set) return makerHref(`PodCliqueSet/${gang.set}`);
  const pod = gang.groups
    .flatMap((group) => group.pods)
    .map((each) => tables.pods.peek().get(each))
    .find(Boolean);
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

/** The address of an event's object, "Kind/namespace/name" or "Kind/name"; undefined if no view shows it. */
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
      return set && makerHref(`PodCliqueSet/${set}`);
    }
    case "ReplicaSet": {
      const deployment = id.slice(0, id.lastIndexOf("-"));
      return tables.deployments.peek().has(deployment) ? makerHref(`Deployment/${deployment}`) : workloadHref(object);
    }
    case "PodCliqueSet":
    case "Deployment":
    case "StatefulSet":
    case "DaemonSet":
    case "Job":
      return makerHref(object);
    default: {
      const table = tableOfKind(kind);
      return table && tableHref(table, id);
    }
  }
}

/** The address of a row of a table; undefined if no view shows it. */
export function tableHref(table: string, id: string): string | undefined {
  switch (table) {
    case "nodes":
      return nodeHref(id);
    case "queues":
      return queueHref(id);
    case "pods":
      return podHref(id);
    case "gangs":
      return gangHref(id);
    case "workloads":
      return workloadHref(id);
    default: {
      const page = pageOfTable(table);
      return page && page.path + pathOf(...id.split("/"));
    }
  }
}
