/** The application frame: navigation rail, connection banner, current page, dialogs. */
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { tableNamed } from "../data/store";
import { connection, serverInfo, tableErrors } from "../data/stream";
import { SearchPalette } from "../search/palette";
import { Confirm } from "../ui/confirm";
import { Empty } from "../ui/controls";
import { Icon } from "../ui/icons";
import { Mark } from "../ui/state";
import { Banner } from "./connection-banner";
import { KeyHelp } from "./key-help";
import { showKeys, showSearch } from "./keys";
import { type Page, pages } from "./pages";
import { navigate, path } from "./router";
import { choice, nextTheme } from "./theme";

/** Selects the page by the path of the address. */
export function App(): JSX.Element {
  const at = path.value;
  const page = pages.find((each) => at === each.path || (each.hasDetails && at.startsWith(`${each.path}/`)));
  const cluster = serverInfo.value?.cluster ?? "Kilonova";
  useEffect(() => {
    if (at === "/") navigate(pages[0]?.path ?? "/fleet", { replace: true });
    else document.title = `${page?.title ?? "Not found"} · ${cluster}`;
  }, [at, page, cluster]);
  return (
    <div class="app">
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <Rail at={page?.path} />
      <main id="main" tabIndex={-1}>
        <Banner />
        {page ? <page.view /> : at !== "/" && <NotFound path={at} />}
      </main>
      <Confirm />
      {showKeys.value && <KeyHelp />}
      {showSearch.value && <SearchPalette />}
    </div>
  );
}

/** Shown for an address that belongs to no page. */
function NotFound({ path }: { path: string }): JSX.Element {
  return (
    <div class="page">
      <div class="page-main">
        <header class="page-head">
          <h1>Not found</h1>
        </header>
        <div class="page-body">
          <Empty title={`There is no page at ${path}`}>
            The pages are at{" "}
            {pages.map((page, at) => (
              <>
                {at > 0 && ", "}
                <a class="link" href={page.path}>
                  {page.path}
                </a>
              </>
            ))}
            .
          </Empty>
        </div>
      </div>
    </div>
  );
}

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function Rail({ at }: { at: string | undefined }): JSX.Element {
  const info = serverInfo.value;
  const list = useRef<HTMLUListElement>(null);
  // On a phone not all pages may fit.
  useEffect(
    () => list.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }),
    [at],
  );
  return (
    <nav class="rail" aria-label="Pages">
      <div class="brand">
        <img src="/favicon.svg" alt="" width="22" height="22" />
        <span class="brand-name">{info?.cluster ?? "Kilonova"}</span>
      </div>
      <button type="button" class="rail-search" onClick={() => (showSearch.value = true)}>
        <Icon name="search" size={14} />
        <span>Search</span>
        <kbd>Ctrl K</kbd>
      </button>
      <ul ref={list}>
        {pages
          .filter((page) => page.path === at || hasContent(page))
          .map((page) => (
            <li key={page.path}>
              <a
                href={page.path}
                aria-current={page.path === at ? "page" : undefined}
                title={page.key ? `${page.title} (g ${page.key})` : page.title}
              >
                <Icon name={page.icon} />
                <span>{page.title}</span>
              </a>
            </li>
          ))}
      </ul>
      <div class="rail-foot">
        <Live />
        <div class="rail-buttons">
          <button
            type="button"
            class="icon-button"
            onClick={nextTheme}
            aria-label={`Theme: ${choice.value}`}
            title={`Theme: ${choice.value}`}
          >
            <Icon name={choice.value} />
          </button>
          <button
            type="button"
            class="icon-button"
            onClick={() => (showKeys.value = true)}
            aria-label="Keys"
            title="Keys (?)"
          >
            <Icon name="keys" />
          </button>
        </div>
      </div>
    </nav>
  );
}

function hasContent(page: Page): boolean {
  return !page.hideEmpty || tableNamed(page.table).all.size > 0;
}

/** Polled or joined from other tables: no errors are reported for these. */
const DERIVED_TABLES = ["usage", "gpumetrics", "workloads"];

function liveness(names: readonly string[]): "live" | "partly" | "stale" {
  const failing = new Set<string>(tableErrors.value.map((error) => error.table));
  if (failing.size === 0) return "live";
  return names.every((name) => DERIVED_TABLES.includes(name) || failing.has(name)) ? "stale" : "partly";
}

function Live(): JSX.Element {
  const labels = {
    connecting: "Connecting",
    live: "Live",
    paused: "Paused",
    partly: "Partly live",
    stale: "Not live",
    lost: "Not connected",
    denied: "Not allowed",
  };
  const tones = {
    connecting: "busy",
    live: "good",
    paused: "idle",
    partly: "warn",
    stale: "bad",
    lost: "bad",
    denied: "bad",
  } as const;
  const info = serverInfo.value;
  const at = connection.value.state;
  const state = at === "live" ? liveness(info?.tables ?? []) : at;
  return (
    <p class="live" title={info && `Kilonova ${info.version}, ${info.actions ? "actions allowed" : "read-only"}`}>
      <Mark tone={tones[state]} />
      <span>{labels[state]}</span>
      {info && state === "live" && <span class="faint">{info.actions ? "actions" : "read-only"}</span>}
    </p>
  );
}
