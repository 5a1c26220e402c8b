import { afterEach, beforeEach, expect, test, vi } from "vitest";

/** A document whose tab can be hidden, and a server that counts open streams. */
class FakeBrowser extends EventTarget {
  visibilityState = "visible";
  requests = 0;
  open = 0;

  show(state: "visible" | "hidden"): void {
    this.visibilityState = state;
    this.dispatchEvent(new Event("visibilitychange"));
  }

  fetch = (_: string, { signal }: { signal: AbortSignal }): Promise<Response> => {
    this.requests++;
    this.open++;
    const hello = JSON.stringify({ version: "1", cluster: "test", actions: false, tables: [], now: 0 });
    const body = new ReadableStream<Uint8Array>({
      start: (stream) => {
        const send = (text: string) => stream.enqueue(new TextEncoder().encode(text));
        send(`event: hello\ndata: ${hello}\n\n`);
        const alive = setInterval(() => send(": still here\n\n"), 10_000);
        signal.addEventListener("abort", () => {
          clearInterval(alive);
          this.open--;
          stream.error(signal.reason);
        });
      },
    });
    return Promise.resolve(new Response(body));
  };
}

/** The BroadcastChannel shared by the tabs of this console. */
class Channel {
  static readonly all = new Set<Channel>();
  onmessage: (() => void) | undefined;
  constructor() {
    Channel.all.add(this);
  }
  postMessage(): void {
    for (const each of Channel.all) if (each !== this) each.onmessage?.();
  }
}

let browser: FakeBrowser;

beforeEach(() => {
  vi.useFakeTimers();
  vi.resetModules();
  Channel.all.clear();
  browser = new FakeBrowser();
  vi.stubGlobal("document", browser);
  vi.stubGlobal("fetch", browser.fetch);
  vi.stubGlobal("BroadcastChannel", Channel);
});

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

/** Starts the page's connection; returns the states that it goes through. */
async function startStream() {
  const { trackTabVisibility: startAttention } = await import("../../src/app/tab-visibility");
  const { connection, runStream: follow } = await import("../../src/data/stream");
  const states: string[] = [];
  connection.subscribe(({ state }) => states.push(state));
  startAttention();
  void follow();
  await vi.advanceTimersByTimeAsync(100);
  return states;
}

test("a tab hidden for half a minute closes its stream and reopens it when visible again", async () => {
  const states = await startStream();
  browser.show("hidden");
  await vi.advanceTimersByTimeAsync(29_000);
  expect(browser.open).toBe(1);
  await vi.advanceTimersByTimeAsync(1_100);
  expect(browser.open).toBe(0);
  await vi.advanceTimersByTimeAsync(3_600_000);
  expect(browser.requests).toBe(1);
  browser.show("visible");
  await vi.advanceTimersByTimeAsync(10);
  expect(browser.open).toBe(1);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(states).toEqual(["connecting", "live", "paused", "live"]);
});

test("a tab visible again within half a minute keeps its stream", async () => {
  const states = await startStream();
  browser.show("hidden");
  await vi.advanceTimersByTimeAsync(20_000);
  browser.show("visible");
  await vi.advanceTimersByTimeAsync(60_000);
  expect(browser.requests).toBe(1);
  expect(states).toEqual(["connecting", "live"]);
});

test("a hidden tab closes its stream when another tab opens one, a visible tab does not", async () => {
  await startStream();
  const other = new Channel();
  other.postMessage();
  await vi.advanceTimersByTimeAsync(10);
  expect(browser.open).toBe(1);
  browser.show("hidden");
  other.postMessage();
  await vi.advanceTimersByTimeAsync(10);
  expect(browser.open).toBe(0);
});

test("a tab opened in the background opens no stream until it is visible", async () => {
  browser.visibilityState = "hidden";
  const states = await startStream();
  expect(browser.requests).toBe(0);
  browser.show("visible");
  await vi.advanceTimersByTimeAsync(10);
  expect(states).toEqual(["connecting", "paused", "live"]);
});
