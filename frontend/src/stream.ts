/**
 * The connection to the server: opened, watched, opened again.
 *
 * It reads the event stream by fetch rather than EventSource, which hides two things the page has
 * to know: the status of a refusal (401: the link has to be opened again), and the comments that
 * the server sends when nothing changes (25 s without even those means that it is gone).
 *
 * While nobody looks at the tab it rests: that is no loss, and nothing is said of it.
 */
import { signal } from "@preact/signals";
import { claimStream, watched } from "./attention";
import { now, setClock } from "./clock";
import type { Hello, Trouble } from "./rows";
import { messageReader, type Message } from "./sse";
import { forget, loaded, receive } from "./store";

const SILENCE_MS = 25_000;
const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 5_000;
const SOON_MS = 1_000;

export type Connection =
  | { state: "connecting" }
  | { state: "live" }
  | { state: "resting" }
  | { state: "lost"; since: number; nextTry: number }
  | { state: "denied" };

/** How the connection stands. */
export const connection = signal<Connection>({ state: "connecting" });
/** What the server said of itself. */
export const hello = signal<Hello | undefined>(undefined);
/** Tables that the server is still filling. */
export const filling = signal<string[]>([]);
/** Tables that the server cannot read. */
export const troubles = signal<readonly Trouble[]>([]);

let wake: (() => void) | undefined;

/** Ends the pause before the next try. */
export function tryNow(): void {
  wake?.();
}

/** Keeps the connection up for as long as the page lives and somebody looks at it. */
export async function follow(): Promise<void> {
  let delay = FIRST_RETRY_MS;
  let lostSince: number | undefined;
  watched.subscribe(tryNow);
  for (;;) {
    if (!watched.peek()) await rest();
    const ended = await readOnce();
    if (ended.denied) {
      connection.value = { state: "denied" };
      await pause(60_000);
      continue;
    }
    if (ended.wasLive) {
      delay = FIRST_RETRY_MS;
      lostSince = undefined;
    }
    if (ended.rests) continue;
    lostSince ??= now.peek();
    connection.value = { state: "lost", since: lostSince, nextTry: now.peek() + delay / 1000 };
    await pause(delay * (0.8 + 0.4 * Math.random()));
    delay = Math.min(delay * 2, LAST_RETRY_MS);
  }
}

/** Waits until somebody looks. Whoever comes back has everything in a moment, else is told why not. */
async function rest(): Promise<void> {
  const { state } = connection.peek();
  if (state === "live" || state === "connecting") connection.value = { state: "resting" };
  let unsubscribe = () => {};
  await new Promise<void>((resolve) => {
    unsubscribe = watched.subscribe((seen) => seen && resolve());
  });
  unsubscribe();
  setTimeout(() => {
    if (watched.peek() && connection.peek().state === "resting") connection.value = { state: "connecting" };
  }, SOON_MS);
}

async function readOnce(): Promise<{ wasLive: boolean; denied?: boolean; rests?: boolean }> {
  const aborter = new AbortController();
  let watchdog = setTimeout(() => aborter.abort(), SILENCE_MS);
  let wasLive = false;
  let rests = false;
  const unsubscribe = watched.subscribe((seen) => {
    if (seen) return;
    rests = true;
    aborter.abort();
  });
  claimStream();
  try {
    const answer = await fetch("/api/stream", {
      headers: { accept: "text/event-stream" },
      cache: "no-store",
      signal: aborter.signal,
    });
    if (answer.status === 401) return { wasLive, denied: true };
    if (!answer.ok || !answer.body) return { wasLive };
    const read = messageReader();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return { wasLive };
      clearTimeout(watchdog);
      watchdog = setTimeout(() => aborter.abort(), SILENCE_MS);
      for (const message of read(value)) {
        take(message);
        wasLive = true;
      }
    }
  } catch {
    return { wasLive, rests }; // Lost, however it came: the banner says so and the next try follows.
  } finally {
    unsubscribe();
    clearTimeout(watchdog);
    aborter.abort();
  }
}

function take(message: Message): void {
  switch (message.event) {
    case "hello": {
      const said = JSON.parse(message.data) as Hello;
      setClock(said.now);
      hello.value = said;
      filling.value = [];
      troubles.value = [];
      loaded.value = new Set();
      connection.value = { state: "live" };
      break;
    }
    case "rows":
      receive(JSON.parse(message.data));
      break;
    case "loading":
      filling.value = (JSON.parse(message.data) as { tables: string[] }).tables;
      break;
    case "trouble":
      troubles.value = (JSON.parse(message.data) as { tables: Trouble[] }).tables;
      for (const { table } of troubles.peek()) forget(table);
      break;
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    wake = () => {
      clearTimeout(timer);
      resolve();
    };
  });
}
