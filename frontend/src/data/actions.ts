/** Actions on the cluster, each confirmed first; the server rejects them unless started with --allow-actions. */
import { computed, signal } from "@preact/signals";
import { serverInfo } from "./stream";

export interface Action {
  action: string;
  table: string;
  id: string;
  /** What the user entered, if the action has an input. */
  value?: number;
}

/** What the user confirms before an action. */
export interface Confirmation {
  title: string;
  /** What will happen. */
  text: string;
  /** The label of the button. */
  verb: string;
  danger?: boolean;
  action: Action;
  /** Asks for a number, starting with the value of `action`. */
  input?: { label: string; minimum: number; maximum?: number };
}

/** Whether the server accepts actions. */
export const actionsAllowed = computed(() => serverInfo.value?.actions === true);
/** The confirmation that is open, if any. */
export const confirmation = signal<Confirmation | undefined>(undefined);

/** Opens a dialog that confirms, performs the action, and shows the reply. */
export function requestConfirmation(next: Confirmation): void {
  confirmation.value = next;
}

/** Sends the action; returns the server's message, or throws an Error with the reason. */
export async function performAction(action: Action): Promise<string> {
  const reply = await fetch("/api/actions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(action),
  });
  return (await readReply<{ message: string }>(reply)).message;
}

/** Decodes a reply of the server; a rejection becomes an Error with the server's message. */
export async function readReply<T>(reply: Response): Promise<T> {
  if (reply.ok) return (await reply.json()) as T;
  const rejection = (await reply.json().catch(() => ({}))) as { message?: string };
  throw new Error(rejection.message ?? `The console replied with status ${reply.status}.`);
}
