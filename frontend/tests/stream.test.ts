import { afterEach, beforeEach, expect, test, vi } from "vitest";

/** A document whose tab can be hidden, and a server that counts the streams that are open. */
class Scene extends EventTarget {
  visibilityState = "visible";
  asked = 0;
  open = 0;

  show(state: "visible" | "hidden"): void {
    this.visibilityState = state;
    this.dispatchEvent(new Event("visibilitychange"));
  }

  fetch = (_: string, { signal }: { signal: AbortSignal }): Promise<Response> => {
    this.asked++;
    this.open++;
    const hello = JSON.stringify({ version: "1", cluster: "test", actions: false, tables: [], now: 0 });
    const body = new ReadableStream<Uint8Array>({
      start: (stream) => {
        const say = (text: string) => stream.enqueue(new TextEncoder().encode(text));
        say(`event: hello\ndata: ${hello}\n\n`);
        const alive = setInterval(() => say(": still here\n\n"), 10_000);
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

/** What another tab of this console hears and says. */
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

let scene: Scene;

beforeEach(() => {
  vi.useFakeTimers();
  vi.resetModules();
  Channel.all.clear();
  scene = new Scene();
  vi.stubGlobal("document", scene);
  vi.stubGlobal("fetch", scene.fetch);
  vi.stubGlobal("BroadcastChannel", Channel);
});

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

/** The page's connection, from its start; `states` are all that it went through. */
async function started() {
  const { startAttention } = await import("../src/attention");
  const { connection, follow } = await import("../src/stream");
  const states: string[] = [];
  connection.subscribe(({ state }) => states.push(state));
  startAttention();
  void follow();
  await vi.advanceTimersByTimeAsync(100);
  return states;
}

test("a tab that is hidden for half a minute gives its stream back, and has it again at once when seen", async () => {
  const states = await started();
  scene.show("hidden");
  await vi.advanceTimersByTimeAsync(29_000);
  expect(scene.open).toBe(1);
  await vi.advanceTimersByTimeAsync(1_100);
  expect(scene.open).toBe(0);
  await vi.advanceTimersByTimeAsync(3_600_000);
  expect(scene.asked).toBe(1);
  scene.show("visible");
  await vi.advanceTimersByTimeAsync(10);
  expect(scene.open).toBe(1);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(states).toEqual(["connecting", "live", "resting", "live"]);
});

test("a tab that is seen again in time keeps its stream", async () => {
  const states = await started();
  scene.show("hidden");
  await vi.advanceTimersByTimeAsync(20_000);
  scene.show("visible");
  await vi.advanceTimersByTimeAsync(60_000);
  expect(scene.asked).toBe(1);
  expect(states).toEqual(["connecting", "live"]);
});

test("when another tab opens a stream, a hidden one gives its own back and a seen one does not", async () => {
  await started();
  const other = new Channel();
  other.postMessage();
  await vi.advanceTimersByTimeAsync(10);
  expect(scene.open).toBe(1);
  scene.show("hidden");
  other.postMessage();
  await vi.advanceTimersByTimeAsync(10);
  expect(scene.open).toBe(0);
});

test("a tab that is opened in the background takes no stream until it is seen", async () => {
  scene.visibilityState = "hidden";
  const states = await started();
  expect(scene.asked).toBe(0);
  scene.show("visible");
  await vi.advanceTimersByTimeAsync(10);
  expect(states).toEqual(["connecting", "resting", "live"]);
});
