/**
 * The connection to the server, with reconnects.
 *
 * The event stream is read by fetch rather than EventSource, which hides two things that the page
 * needs: the status of a rejection (401: the link has to be opened again), and the comments that the
 * server sends as keep-alives (25 s without any means that the connection is lost).
 *
 * While the tab is hidden the connection is paused, which is not reported as a loss.
 */
import { signal } from "@preact/signals";
import { claimStream, isTabVisible } from "../app/tab-visibility";
import { now, setClock } from "./clock";
import type { DegradedComponent, ServerInfo, TableError } from "./messages";
import { type Message, messageReader } from "./sse";
import { applyChange, clearTable, loaded } from "./store";

const SILENCE_TIMEOUT_MS = 25_000;
const FIRST_RETRY_MS = 500;
const MAX_RETRY_MS = 5_000;
const RESUME_NOTICE_MS = 1_000;

export type Connection =
  | { state: "connecting" }
  | { state: "live" }
  | { state: "paused" }
  | { state: "lost"; since: number; nextTry: number }
  | { state: "denied" };

/** The state of the connection. */
export const connection = signal<Connection>({ state: "connecting" });
/** The server's first message. */
export const serverInfo = signal<ServerInfo | undefined>(undefined);
/** Tables that the server is still listing. */
export const loadingTables = signal<string[]>([]);
/** Tables that the server cannot read. */
export const tableErrors = signal<readonly TableError[]>([]);
/** Components of the cluster that have failed and are being restarted. */
export const degradedComponents = signal<readonly DegradedComponent[]>([]);

let wake: (() => void) | undefined;

/** Reconnects without waiting for the rest of the delay. */
export function reconnectNow(): void {
  wake?.();
}

/** Keeps the connection open for the lifetime of the page while the tab is visible. */
export async function runStream(): Promise<void> {
  let delay = FIRST_RETRY_MS;
  let lostSince: number | undefined;
  isTabVisible.subscribe(reconnectNow);
  for (;;) {
    if (!isTabVisible.peek()) await waitUntilVisible();
    const ended = await readStream();
    if (ended.denied) {
      connection.value = { state: "denied" };
      await pause(60_000);
      continue;
    }
    if (ended.wasLive) {
      delay = FIRST_RETRY_MS;
      lostSince = undefined;
    }
    if (ended.paused) continue;
    lostSince ??= now.peek();
    connection.value = { state: "lost", since: lostSince, nextTry: now.peek() + delay / 1000 };
    await pause(delay * (0.8 + 0.4 * Math.random()));
    delay = Math.min(delay * 2, MAX_RETRY_MS);
  }
}

/** Waits until the tab is visible. "Connecting" is shown only if the stream does not resume promptly. */
async function waitUntilVisible(): Promise<void> {
  const { state } = connection.peek();
  if (state === "live" || state === "connecting") connection.value = { state: "paused" };
  let unsubscribe = () => {};
  await new Promise<void>((resolve) => {
    unsubscribe = isTabVisible.subscribe((visible) => visible && resolve());
  });
  unsubscribe();
  setTimeout(() => {
    if (isTabVisible.peek() && connection.peek().state === "paused") connection.value = { state: "connecting" };
  }, RESUME_NOTICE_MS);
}

async function readStream(): Promise<{ wasLive: boolean; denied?: boolean; paused?: boolean }> {
  const aborter = new AbortController();
  let watchdog = setTimeout(() => aborter.abort(), SILENCE_TIMEOUT_MS);
  let wasLive = false;
  let paused = false;
  const unsubscribe = isTabVisible.subscribe((visible) => {
    if (visible) return;
    paused = true;
    aborter.abort();
  });
  claimStream();
  try {
    const reply = await fetch("/api/stream", {
      headers: { accept: "text/event-stream" },
      cache: "no-store",
      signal: aborter.signal,
    });
    if (reply.status === 401) return { wasLive, denied: true };
    if (!reply.ok || !reply.body) return { wasLive };
    const read = messageReader();
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return { wasLive };
      clearTimeout(watchdog);
      watchdog = setTimeout(() => aborter.abort(), SILENCE_TIMEOUT_MS);
      for (const message of read(value)) {
        handleMessage(message);
        wasLive = true;
      }
    }
  } catch {
    return { wasLive, paused }; // Any failure is a lost connection: the banner shows it and a retry follows.
  } finally {
    unsubscribe();
    clearTimeout(watchdog);
    aborter.abort();
  }
}

function handleMessage(message: Message): void {
  switch (message.event) {
    case "hello": {
      const info = JSON.parse(message.data) as ServerInfo;
      setClock(info.now);
      serverInfo.value = info;
      loadingTables.value = [];
      tableErrors.value = [];
      degradedComponents.value = [];
      loaded.value = new Set();
      connection.value = { state: "live" };
      break;
    }
    case "rows":
      applyChange(JSON.parse(message.data));
      break;
    case "loading":
      loadingTables.value = (JSON.parse(message.data) as { tables: string[] }).tables;
      break;
    case "table-errors":
      tableErrors.value = (JSON.parse(message.data) as { tables: TableError[] }).tables;
      for (const { table } of tableErrors.peek()) clearTable(table);
      break;
    case "degraded":
      degradedComponents.value = (JSON.parse(message.data) as { components: DegradedComponent[] }).components;
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
