/** The whole page: the rail with the pages, the state of the connection, the page itself. */
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { Banner } from "./banner";
import { KeyHelp } from "./keyhelp";
import { showKeys, showSearch } from "./keys";
import { pages } from "./pages";
import { go, path } from "./router";
import { SearchPalette } from "./search/palette";
import { connection, hello, troubles } from "./stream";
import { choice, nextTheme } from "./theme";
import { Empty } from "./ui/bits";
import { Confirm } from "./ui/confirm";
import { Icon } from "./ui/icons";
import { Mark } from "./ui/state";

/** Chooses the page by the path. */
export function App(): JSX.Element {
  const at = path.value;
  const page = pages.find((each) => at === each.path || (each.hasDetails && at.startsWith(`${each.path}/`)));
  const cluster = hello.value?.cluster ?? "Kilonova";
  useEffect(() => {
    if (at === "/") go(pages[0]?.path ?? "/fleet", { replace: true });
    else document.title = `${page?.title ?? "Not found"} · ${cluster}`;
  }, [at, page, cluster]);
  return (
    <div class="app">
      <a class="skip" href="#main" onClick={skip}>Skip to the content</a>
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

/** For an address that no page has. */
function NotFound({ path }: { path: string }): JSX.Element {
  return (
    <div class="page">
      <div class="page-main">
        <header class="page-head"><h1>Not found</h1></header>
        <div class="page-body">
          <Empty title={`There is no page at ${path}`}>The pages are at {pages.map((page, at) => <>{at > 0 && ", "}<a class="link" href={page.path}>{page.path}</a></>)}.</Empty>
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
  const said = hello.value;
  return (
    <nav class="rail" aria-label="Pages">
      <div class="brand">
        <img src="/favicon.svg" alt="" width="22" height="22" />
        <span class="brand-name">{said?.cluster ?? "Kilonova"}</span>
      </div>
      <button type="button" class="rail-search" onClick={() => (showSearch.value = true)}>
        <Icon name="search" size={14} />
        <span>Search</span>
        <kbd>Ctrl K</kbd>
      </button>
      <ul>
        {pages.map((page) => (
          <li key={page.path}>
            <a href={page.path} aria-current={page.path === at ? "page" : undefined} title={`${page.title} (g ${page.key})`}>
              <Icon name={page.icon} />
              <span>{page.title}</span>
            </a>
          </li>
        ))}
      </ul>
      <div class="rail-foot">
        <Live />
        <div class="rail-buttons">
          <button type="button" class="icon-button" onClick={nextTheme} aria-label={`Theme: ${choice.value}`} title={`Theme: ${choice.value}`}>
            <Icon name={choice.value} />
          </button>
          <button type="button" class="icon-button" onClick={() => (showKeys.value = true)} aria-label="Keys" title="Keys (?)">
            <Icon name="keys" />
          </button>
        </div>
      </div>
    </nav>
  );
}

/** What is asked for now and then, or made of other tables, is never in trouble. */
const MADE = ["usage", "workloads"];

function howLive(names: readonly string[]): "live" | "partly" | "stale" {
  const stuck = new Set<string>(troubles.value.map((trouble) => trouble.table));
  if (stuck.size === 0) return "live";
  return names.every((name) => MADE.includes(name) || stuck.has(name)) ? "stale" : "partly";
}

function Live(): JSX.Element {
  const words = { connecting: "Connecting", live: "Live", resting: "Paused", partly: "Partly live", stale: "Not live", lost: "Not connected", denied: "Not allowed" };
  const tones = { connecting: "busy", live: "good", resting: "idle", partly: "warn", stale: "bad", lost: "bad", denied: "bad" } as const;
  const said = hello.value;
  const at = connection.value.state;
  const state = at === "live" ? howLive(said?.tables ?? []) : at;
  return (
    <p class="live" title={said && `Kilonova ${said.version}, ${said.actions ? "actions allowed" : "read-only"}`}>
      <Mark tone={tones[state]} />
      <span>{words[state]}</span>
      {said && state === "live" && <span class="faint">{said.actions ? "actions" : "read-only"}</span>}
    </p>
  );
}
