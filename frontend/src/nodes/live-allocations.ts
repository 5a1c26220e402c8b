/** The page's single GpuAllocations, updated from the tables while any view is subscribed. */
import { effect, type ReadonlySignal, signal } from "@preact/signals";
import { tables } from "../data/store";
import { type AllocationChanges, GpuAllocations } from "./gpu-allocations";

export const allocations = new GpuAllocations();

const count = signal(0);
/** Incremented after changes, a few times a second at most: for numbers and text. */
export const refreshTick: ReadonlySignal<number> = count;

const TICK_MS = 250;
const listeners = new Set<(changes: AllocationChanges) => void>();
let watching = false;
let frame = 0;
let lastTick = 0;
let nextTick = 0;

/** Calls `listener` with changes, at most once per frame; returns a function that unsubscribes. */
export function subscribe(listener: (changes: AllocationChanges) => void): () => void {
  if (!watching) watch();
  listeners.add(listener);
  schedule();
  return () => listeners.delete(listener);
}

function watch(): void {
  watching = true;
  tables.nodes.watch((after, before) => allocations.onNode(after, before));
  tables.pods.watch((after, before) => allocations.onPod(after, before));
  tables.usage.watch((after, before) => allocations.onUsage(after, before));
  tables.gpumetrics.watch((after, before) => allocations.onReadings(after, before));
  effect(() => {
    tables.nodes.version.value;
    tables.pods.version.value;
    tables.usage.version.value;
    tables.gpumetrics.version.value;
    schedule();
  });
}

function schedule(): void {
  if (frame || listeners.size === 0) return;
  frame = requestAnimationFrame(() => {
    frame = 0;
    const changes = allocations.applyChanges();
    for (const listener of listeners) listener(changes);
    if (changes.nodes.size > 0) scheduleTick();
  });
}

function scheduleTick(): void {
  if (nextTick) return;
  const wait = Math.max(0, lastTick + TICK_MS - performance.now());
  nextTick = window.setTimeout(() => {
    nextTick = 0;
    lastTick = performance.now();
    count.value++;
  }, wait);
}
