/** What the containers of a pod have written, live. */
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { said } from "../actions";
import { watched } from "../attention";
import { Section } from "../ui/panel";
import type { Container } from "./containers";
import { extended } from "./lines";

/** Chooses the container, follows it or not, or shows its last run. */
export function Logs({ pod, containers }: { pod: string; containers: readonly Container[] }): JSX.Element {
  const [chosen, setChosen] = useState("");
  const [follow, setFollow] = useState(true);
  const [previous, setPrevious] = useState(false);
  const container = containers.find((each) => each.name === chosen) ?? containers[0];
  if (!container) return <></>;
  const before = previous && container.last !== "";
  return (
    <Section title="Log">
      <div class="log-head">
        <label class="choice">
          <span class="visually-hidden">Container</span>
          <select value={container.name} onChange={(event) => setChosen(event.currentTarget.value)}>
            {containers.map((each) => <option key={each.name} value={each.name}>{each.role ? `${each.name} (${each.role})` : each.name}</option>)}
          </select>
        </label>
        <button type="button" class="toggle" aria-pressed={follow && !before} disabled={before} onClick={() => setFollow(!follow)}>Follow</button>
        <button
          type="button"
          class="toggle"
          aria-pressed={before}
          disabled={container.last === ""}
          title={container.last === "" ? "It has not run before" : undefined}
          onClick={() => setPrevious(!previous)}
        >
          Previous run
        </button>
      </div>
      {container.hasLog ? (
        // Another run is another log: it is read anew when the container starts again.
        <Output key={`${container.name} ${container.restarts}`} pod={pod} container={container.name} follow={follow && !before} previous={before} />
      ) : (
        <p class="faint">It has not started: {container.state}{container.message && `, ${container.message}`}.</p>
      )}
    </Section>
  );
}

type Reading = "reading" | "live" | "ended" | "paused" | "failed";

function Output({ pod, container, follow, previous }: {
  pod: string;
  container: string;
  follow: boolean;
  previous: boolean;
}): JSX.Element {
  const [text, setText] = useState("");
  const [reading, setReading] = useState<Reading>("reading");
  const [why, setWhy] = useState("");
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  const isSeen = watched.value;
  useEffect(() => {
    // A stream holds one of the browser's few connections: not for a tab that nobody sees.
    if (follow && !isSeen) return setReading("paused");
    const stop = new AbortController();
    setReading("reading");
    setText("");
    const take = (all: string) => {
      setText(all);
      setReading(follow ? "live" : "reading");
    };
    read({ pod, container, follow, previous }, take, stop.signal)
      .then(() => setReading("ended"))
      .catch((error: Error) => {
        if (stop.signal.aborted) return;
        setWhy(error.message);
        setReading("failed");
      });
    return () => stop.abort();
  }, [pod, container, follow, previous, follow && isSeen]);
  useLayoutEffect(() => {
    if (box.current && atEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  const words: Record<Reading, string> = { reading: "Reading…", live: "Live", ended: text ? "The end" : "It has written nothing", paused: "Paused", failed: why };
  return (
    <>
      <pre
        ref={box}
        class="code log"
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label={`Log of ${container}`}
        onScroll={(event) => {
          const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
          atEnd.current = scrollHeight - scrollTop - clientHeight < 24;
        }}
      >
        {text}
      </pre>
      <p role="status" class={reading === "failed" ? "tone-bad log-foot" : "faint log-foot"}>{words[reading]}</p>
    </>
  );
}

interface Asked {
  pod: string;
  container: string;
  follow: boolean;
  previous: boolean;
}

/** Reads until the log ends; `take` gets all that is kept of it, at most once a frame. */
async function read({ pod, container, follow, previous }: Asked, take: (text: string) => void, signal: AbortSignal): Promise<void> {
  const query = new URLSearchParams({ id: pod, container, follow: String(follow), previous: String(previous) });
  const answer = await fetch(`/api/logs?${query}`, { signal });
  if (!answer.ok || !answer.body) {
    await said<unknown>(answer);
    return;
  }
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let frame = 0;
  const show = () => {
    cancelAnimationFrame(frame);
    frame = 0;
    if (!signal.aborted) take(text);
  };
  take(text);
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    text = extended(text, value);
    frame ||= requestAnimationFrame(show);
  }
  show();
}
