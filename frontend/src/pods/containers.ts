/** The containers of a pod, from its object. Pure. */
import type { Tone } from "../ui/state";

interface State {
  waiting?: { reason?: string; message?: string };
  running?: { startedAt?: string };
  terminated?: {
    exitCode?: number;
    signal?: number;
    reason?: string;
    message?: string;
    startedAt?: string;
    finishedAt?: string;
  };
}

interface Status {
  name: string;
  ready?: boolean;
  restartCount?: number;
  image?: string;
  state?: State;
  lastState?: State;
}

interface Spec {
  name: string;
  image?: string;
  restartPolicy?: string;
}

/** The fields of a pod that are read here. */
export interface PodObject {
  spec?: { containers?: Spec[]; initContainers?: Spec[]; ephemeralContainers?: Spec[] };
  status?: { containerStatuses?: Status[]; initContainerStatuses?: Status[]; ephemeralContainerStatuses?: Status[] };
}

export interface Container {
  name: string;
  role: "" | "init" | "sidecar" | "debug";
  image: string;
  ready: boolean;
  restarts: number;
  state: string;
  tone: Tone;
  /** Details of the state. */
  message: string;
  /** The exit of its previous run, if any. */
  last: string;
  /** Whether it has a log. */
  hasLog: boolean;
}

/** All containers; regular ones first, then init and ephemeral ones. */
export function containersOf({ spec = {}, status = {} }: PodObject): Container[] {
  const init = (each: Spec) => (each.restartPolicy === "Always" ? "sidecar" : "init");
  return [
    ...joinStatuses(spec.containers, status.containerStatuses, () => ""),
    ...joinStatuses(spec.initContainers, status.initContainerStatuses, init),
    ...joinStatuses(spec.ephemeralContainers, status.ephemeralContainerStatuses, () => "debug"),
  ];
}

function joinStatuses(
  specs: Spec[] = [],
  statuses: Status[] = [],
  roleOf: (spec: Spec) => Container["role"],
): Container[] {
  const known = new Map(statuses.map((each) => [each.name, each]));
  return specs.map((spec) => {
    const found = known.get(spec.name);
    const role = roleOf(spec);
    return {
      name: spec.name,
      role,
      image: spec.image ?? found?.image ?? "",
      ready: found?.ready ?? false,
      restarts: found?.restartCount ?? 0,
      ...stateOf(found, role),
      last: lastExit(found?.lastState),
      hasLog: Boolean(found?.state?.running || found?.state?.terminated || found?.lastState?.terminated),
    };
  });
}

function stateOf(status: Status | undefined, role: Container["role"]): Pick<Container, "state" | "tone" | "message"> {
  const { running, waiting, terminated } = status?.state ?? {};
  if (running) return { state: "Running", tone: status?.ready || role === "debug" ? "good" : "busy", message: "" };
  if (terminated) {
    const failed = Boolean(terminated.exitCode || terminated.signal);
    const state = terminated.reason || (failed ? "Error" : "Completed");
    return {
      state,
      tone: failed ? "bad" : "idle",
      message: [exitOf(terminated), terminated.message].filter(Boolean).join(", "),
    };
  }
  const reason = waiting?.reason || "Waiting";
  return { state: reason, tone: /BackOff|Err|Invalid/.test(reason) ? "bad" : "wait", message: waiting?.message ?? "" };
}

function exitOf(ended: NonNullable<State["terminated"]>): string {
  if (ended.signal) return `signal ${ended.signal}`;
  return ended.exitCode ? `exit code ${ended.exitCode}` : "";
}

/** "Error, exit code 3"; empty if there was no previous run. */
function lastExit(last: State | undefined): string {
  const ended = last?.terminated;
  if (!ended) return "";
  return [ended.reason || (ended.exitCode ? "Error" : "Completed"), exitOf(ended)].filter(Boolean).join(", ");
}
