/** Path and query of the address as signals. Filters are stored in the query, so that links keep them. */
import { computed, type ReadonlySignal, signal } from "@preact/signals";

const address = signal(location.pathname + location.search);

/** The path, e.g. "/workloads/Job/default/train". */
export const path: ReadonlySignal<string> = computed(() => address.value.split("?")[0] ?? "/");

/** The query of the address. */
export const query: ReadonlySignal<URLSearchParams> = computed(
  () => new URLSearchParams(address.value.split("?")[1] ?? ""),
);

/** Navigates to an address of this page. */
export function navigate(to: string, options: { replace?: boolean } = {}): void {
  if (to === address.peek()) return;
  const { pathname, search } = new URL(to, location.href);
  if (options.replace) scheduleReplace(to);
  else {
    flushAddress();
    history.pushState(null, "", to);
  }
  // Not read from the address bar, which may be updated later.
  address.value = pathname + search;
}

/** Browsers drop changes of the address bar that come too fast, as typing in a filter causes. */
const REPLACE_DELAY_MS = 100;
let pendingAddress: string | undefined;
let replaceTimer: ReturnType<typeof setTimeout> | undefined;

function scheduleReplace(to: string): void {
  pendingAddress = to;
  replaceTimer ??= setTimeout(flushAddress, REPLACE_DELAY_MS);
}

function flushAddress(): void {
  clearTimeout(replaceTimer);
  replaceTimer = undefined;
  if (pendingAddress !== undefined) history.replaceState(null, "", pendingAddress);
  pendingAddress = undefined;
}

/** Sets or (if empty) removes query parameters; adds a history entry only with `step`. */
export function setQuery(parts: Record<string, string | undefined>, { step = false } = {}): void {
  const next = new URLSearchParams(query.peek());
  for (const [name, value] of Object.entries(parts))
    if (value) next.set(name, value);
    else next.delete(name);
  navigate(appendQuery(path.peek(), next), { replace: !step });
}

/** A query parameter and its setter; subscribes. */
export function useQuery(name: string, fallback = ""): [string, (value: string) => void] {
  const value = query.value.get(name) ?? fallback;
  return [value, (next) => setQuery({ [name]: next === fallback ? undefined : next })];
}

/** An address with the current query, for opening a detail view and returning; `without` names
 * parameters of the current detail view. */
export function withQuery(to: string, ...without: string[]): string {
  const params = new URLSearchParams(query.value);
  for (const name of without) params.delete(name);
  return appendQuery(to, params);
}

/** Path segments below a page's own path, decoded; unchanged where they cannot be decoded. */
export function pathBelow(base: string): string[] {
  return path.value.slice(base.length).split("/").filter(Boolean).map(decodePart);
}

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** A path of encoded segments. */
export function pathOf(...parts: string[]): string {
  return `/${parts.map(encodeURIComponent).join("/")}`;
}

function appendQuery(to: string, parts: URLSearchParams): string {
  const text = parts.toString();
  return text ? `${to}?${text}` : to;
}

/** Handles the browser's back and forward, and links within this page. */
export function startRouting(): void {
  addEventListener("popstate", () => {
    pendingAddress = undefined;
    address.value = location.pathname + location.search;
  });
  addEventListener("pagehide", flushAddress);
  document.addEventListener("click", (click) => {
    if (click.defaultPrevented || click.button !== 0) return;
    if (click.metaKey || click.ctrlKey || click.shiftKey || click.altKey) return;
    const link = (click.target as Element | null)?.closest<HTMLAnchorElement>("a[href^='/']");
    if (!link || link.target || link.hasAttribute("download")) return;
    click.preventDefault();
    navigate(link.pathname + link.search);
  });
}
