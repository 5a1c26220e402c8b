/** Keyboard shortcuts: "g" and a letter opens a page, Esc closes the topmost panel. */
import { signal } from "@preact/signals";
import { navigate } from "./router";

/** Whether the list of shortcuts is open. */
export const showKeys = signal(false);
/** Whether the global search is open. */
export const showSearch = signal(false);

const closers: (() => void)[] = [];

/** Calls `close` on Esc while it is the handler registered last; returns a function that unregisters it. */
export function onEscape(close: () => void): () => void {
  closers.push(close);
  return () => {
    const at = closers.indexOf(close);
    if (at >= 0) closers.splice(at, 1);
  };
}

/** Registers the shortcuts; `pages` are the paths by letter. */
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
    if (ARROWS.includes(event.key) && hasNoFocus(event.target)) return focusArrowTarget(event);
    const target = pages.get(event.key);
    if (target && event.timeStamp - goSince < 1200) {
      goSince = 0;
      event.preventDefault();
      return navigate(target);
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

/** True if no element has the focus: a new page, or the focused element was removed. */
function hasNoFocus(target: EventTarget | null): boolean {
  return (
    target === document.body ||
    target === document.documentElement ||
    (target instanceof HTMLElement && target.id === "main")
  );
}

/** Moves the focus to the page's element that handles arrow keys, and repeats the key there. */
function focusArrowTarget(event: KeyboardEvent): void {
  const element = document.querySelector<HTMLElement>("main [data-arrows]");
  if (!element) return;
  event.preventDefault();
  element.focus();
  element.dispatchEvent(new KeyboardEvent("keydown", { key: event.key, cancelable: true }));
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches("input, select, textarea, [contenteditable]");
}
