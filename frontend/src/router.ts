/** Where the page is: path and query of the address as signals. Filters live in the query. */
import { computed, signal, type ReadonlySignal } from "@preact/signals";

const address = signal(location.pathname + location.search);

/** The path, e.g. "/workloads/Job/default/train". */
export const path: ReadonlySignal<string> = computed(() => address.value.split("?")[0] ?? "/");

/** The query of the address. */
export const query: ReadonlySignal<URLSearchParams> = computed(
  () => new URLSearchParams(address.value.split("?")[1] ?? ""),
);

/** Goes to an address of this page. */
export function go(to: string, options: { replace?: boolean } = {}): void {
  if (to === address.peek()) return;
  const { pathname, search } = new URL(to, location.href);
  if (options.replace) replaceSoon(to);
  else {
    writeNow();
    history.pushState(null, "", to);
  }
  // Not what the address bar says, which follows.
  address.value = pathname + search;
}

/** Browsers leave out changes of the address bar that come too fast, as who types makes them. */
const SOON_MS = 100;
let unwritten: string | undefined;
let writing: ReturnType<typeof setTimeout> | undefined;

function replaceSoon(to: string): void {
  unwritten = to;
  writing ??= setTimeout(writeNow, SOON_MS);
}

function writeNow(): void {
  clearTimeout(writing);
  writing = undefined;
  if (unwritten !== undefined) history.replaceState(null, "", unwritten);
  unwritten = undefined;
}

/** Sets or (empty) removes parts of the query; a step in the history only where it is asked for. */
export function setQuery(parts: Record<string, string | undefined>, { step = false } = {}): void {
  const next = new URLSearchParams(query.peek());
  for (const [name, value] of Object.entries(parts))
    if (value) next.set(name, value);
    else next.delete(name);
  go(withQuery(path.peek(), next), { replace: !step });
}

/** One part of the query and how to set it; subscribes. */
export function useQuery(name: string, fallback = ""): [string, (value: string) => void] {
  const value = query.value.get(name) ?? fallback;
  return [value, (next) => setQuery({ [name]: next === fallback ? undefined : next })];
}

/** An address with the filters of the present one, for going to a detail and back; what is only of
 * the present detail is left out. */
export function keepingQuery(to: string, ...without: string[]): string {
  const kept = new URLSearchParams(query.value);
  for (const name of without) kept.delete(name);
  return withQuery(to, kept);
}

/** The parts of the path below a page's own, decoded; as they stand where they cannot be. */
export function below(base: string): string[] {
  return path.value.slice(base.length).split("/").filter(Boolean).map(decoded);
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** A path of parts, each encoded. */
export function pathOf(...parts: string[]): string {
  return "/" + parts.map(encodeURIComponent).join("/");
}

function withQuery(to: string, parts: URLSearchParams): string {
  const text = parts.toString();
  return text ? `${to}?${text}` : to;
}

/** Follows the browser's back and forward, and links of this page. */
export function startRouting(): void {
  addEventListener("popstate", () => {
    unwritten = undefined;
    address.value = location.pathname + location.search;
  });
  addEventListener("pagehide", writeNow);
  document.addEventListener("click", (click) => {
    if (click.defaultPrevented || click.button !== 0) return;
    if (click.metaKey || click.ctrlKey || click.shiftKey || click.altKey) return;
    const link = (click.target as Element | null)?.closest<HTMLAnchorElement>("a[href^='/']");
    if (!link || link.target || link.hasAttribute("download")) return;
    click.preventDefault();
    go(link.pathname + link.search);
  });
}
