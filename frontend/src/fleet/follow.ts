/** The page's holdings: one, kept up to date from the tables for whoever shows them. */
import { effect, signal, type ReadonlySignal } from "@preact/signals";
import { tables } from "../store";
import { Holdings, type Changes } from "./holdings";

export const holdings = new Holdings();

const count = signal(0);
/** Moves on after changes, but only a few times a second: for numbers and words. */
export const beat: ReadonlySignal<number> = count;

const BEAT_MS = 250;
const listeners = new Set<(changes: Changes) => void>();
let watching = false;
let frame = 0;
let lastBeat = 0;
let nextBeat = 0;

/** Tells of changes, at most once per frame; returns how to stop. */
export function follow(listener: (changes: Changes) => void): () => void {
  if (!watching) watch();
  listeners.add(listener);
  schedule();
  return () => listeners.delete(listener);
}

function watch(): void {
  watching = true;
  tables.nodes.watch((after, before) => holdings.node(after, before));
  tables.pods.watch((after, before) => holdings.pod(after, before));
  tables.usage.watch((after, before) => holdings.usage(after, before));
  effect(() => {
    tables.nodes.version.value;
    tables.pods.version.value;
    tables.usage.version.value;
    schedule();
  });
}

function schedule(): void {
  if (frame || listeners.size === 0) return;
  frame = requestAnimationFrame(() => {
    frame = 0;
    const changes = holdings.take();
    for (const listener of listeners) listener(changes);
    if (changes.nodes.size > 0) soonBeat();
  });
}

function soonBeat(): void {
  if (nextBeat) return;
  const wait = Math.max(0, lastBeat + BEAT_MS - performance.now());
  nextBeat = window.setTimeout(() => {
    nextBeat = 0;
    lastBeat = performance.now();
    count.value++;
  }, wait);
}
