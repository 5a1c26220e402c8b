/** The keyboard: "g" and a letter goes to a page, Esc closes what is on top. */
import { signal } from "@preact/signals";
import { go } from "./router";

/** Whether the list of keys is shown. */
export const showKeys = signal(false);
/** Whether the search over everything is shown. */
export const showSearch = signal(false);

const closers: (() => void)[] = [];

/** Calls `close` on Esc while it is the newest that asked; returns how to stop. */
export function onEscape(close: () => void): () => void {
  closers.push(close);
  return () => {
    const at = closers.indexOf(close);
    if (at >= 0) closers.splice(at, 1);
  };
}

/** Listens to the keyboard; `pages` are the paths by letter. */
export function startKeys(pages: ReadonlyMap<string, string>): void {
  let goSince = 0;
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      showSearch.value = true;
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") return closers.at(-1)?.();
    if (isTyping(event.target)) return;
    if (ARROWS.includes(event.key) && isNowhere(event.target)) return start(event);
    const target = pages.get(event.key);
    if (target && event.timeStamp - goSince < 1200) {
      goSince = 0;
      event.preventDefault();
      return go(target);
    }
    goSince = event.key === "g" ? event.timeStamp : 0;
    if (event.key === "?") showKeys.value = true;
    if (event.key === "/") {
      event.preventDefault();
      const box = document.querySelector<HTMLInputElement>("main [data-search]");
      if (box) box.select();
      else showSearch.value = true;
    }
  });
}

const ARROWS = ["ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight", "Home", "End", "PageDown", "PageUp"];

/** Nothing has the focus: a fresh page, or what had it is gone. */
function isNowhere(target: EventTarget | null): boolean {
  return target === document.body || target === document.documentElement || (target instanceof HTMLElement && target.id === "main");
}

/** Gives the focus, and the key, to what the page moves in. */
function start(event: KeyboardEvent): void {
  const moved = document.querySelector<HTMLElement>("main [data-arrows]");
  if (!moved) return;
  event.preventDefault();
  moved.focus();
  moved.dispatchEvent(new KeyboardEvent("keydown", { key: event.key, cancelable: true }));
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches("input, select, textarea, [contenteditable]");
}
