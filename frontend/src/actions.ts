/** Acts on the cluster, each confirmed first; the server refuses them unless it allows actions. */
import { computed, signal } from "@preact/signals";
import { hello } from "./stream";

export interface Act {
  act: "scale" | "restart" | "suspend" | "resume" | "cordon" | "uncordon" | "drain" | "delete";
  table: "nodes" | "sets" | "cliques" | "deployments" | "statefulsets" | "jobs" | "pods" | "gangs";
  id: string;
  replicas?: number;
}

/** What is asked of a person before something is done. */
export interface Question {
  title: string;
  /** What will happen, in words. */
  text: string;
  /** The word on the button. */
  verb: string;
  danger?: boolean;
  act: Act;
  /** Asks for a number of replicas, beginning with that of `act`. */
  scales?: boolean;
}

/** Whether the server takes actions. */
export const mayAct = computed(() => hello.value?.actions === true);
/** What is being asked. */
export const question = signal<Question | undefined>(undefined);

/** Shows a dialog that asks, acts, and shows the answer. */
export function ask(asked: Question): void {
  question.value = asked;
}

/** Does it; the answer in words, or an Error with the reason. */
export async function perform(act: Act): Promise<string> {
  const answer = await fetch("/api/actions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(act),
  });
  return (await said<{ message: string }>(answer)).message;
}

/** Reads an answer of the server; a refusal becomes an Error in the server's words. */
export async function said<T>(answer: Response): Promise<T> {
  if (answer.ok) return (await answer.json()) as T;
  const refused = (await answer.json().catch(() => ({}))) as { message?: string };
  throw new Error(refused.message ?? `The console answered ${answer.status}.`);
}
