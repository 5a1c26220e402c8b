/** The logs of a pod's containers, live. */
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { isTabVisible } from "../app/tab-visibility";
import { readReply } from "../data/actions";
import { Section } from "../ui/panel";
import type { Container } from "./containers";
import { appendLines } from "./log-buffer";

/** Selects the container, whether to follow, and the current or previous run. */
export function Logs({ pod, containers }: { pod: string; containers: readonly Container[] }): JSX.Element | null {
  const [chosen, setChosen] = useState("");
  const [follow, setFollow] = useState(true);
  const [previous, setPrevious] = useState(false);
  const container = containers.find((each) => each.name === chosen) ?? containers[0];
  if (!container) return null;
  const showPrevious = previous && container.last !== "";
  return (
    <Section title="Log">
      <div class="log-head">
        <label class="choice">
          <span class="visually-hidden">Container</span>
          <select value={container.name} onChange={(event) => setChosen(event.currentTarget.value)}>
            {containers.map((each) => (
              <option key={each.name} value={each.name}>
                {each.role ? `${each.name} (${each.role})` : each.name}
              </option>
            ))}
          </select>
        </label>
        <button
          type="button"
          class="toggle"
          aria-pressed={follow && !showPrevious}
          disabled={showPrevious}
          onClick={() => setFollow(!follow)}
        >
          Follow
        </button>
        <button
          type="button"
          class="toggle"
          aria-pressed={showPrevious}
          disabled={container.last === ""}
          title={container.last === "" ? "There is no previous run" : undefined}
          onClick={() => setPrevious(!previous)}
        >
          Previous run
        </button>
      </div>
      {container.hasLog ? (
        // The key includes the restarts: a restarted container has another log.
        <Output
          key={`${container.name} ${container.restarts}`}
          pod={pod}
          container={container.name}
          follow={follow && !showPrevious}
          previous={showPrevious}
        />
      ) : (
        <p class="faint">
          Not started: {container.state}
          {container.message && `, ${container.message}`}.
        </p>
      )}
    </Section>
  );
}

type Reading = "reading" | "live" | "ended" | "paused" | "failed";

function Output({
  pod,
  container,
  follow,
  previous,
}: {
  pod: string;
  container: string;
  follow: boolean;
  previous: boolean;
}): JSX.Element {
  const [text, setText] = useState("");
  const [reading, setReading] = useState<Reading>("reading");
  const [failure, setFailure] = useState("");
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  const isVisible = isTabVisible.value;
  useEffect(() => {
    // A stream occupies one of the browser's few connections: not for a hidden tab.
    if (follow && !isVisible) return setReading("paused");
    const stop = new AbortController();
    setReading("reading");
    setText("");
    const show = (all: string) => {
      setText(all);
      setReading(follow ? "live" : "reading");
    };
    readLog({ pod, container, follow, previous }, show, stop.signal)
      .then(() => setReading("ended"))
      .catch((error: Error) => {
        if (stop.signal.aborted) return;
        setFailure(error.message);
        setReading("failed");
      });
    return () => stop.abort();
  }, [pod, container, follow, previous, follow && isVisible]);
  useLayoutEffect(() => {
    if (box.current && atEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  const labels: Record<Reading, string> = {
    reading: "Reading…",
    live: "Live",
    ended: text ? "End of log" : "The log is empty",
    paused: "Paused",
    failed: failure,
  };
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
      <p role="status" class={reading === "failed" ? "tone-bad log-foot" : "faint log-foot"}>
        {labels[reading]}
      </p>
    </>
  );
}

interface LogQuery {
  pod: string;
  container: string;
  follow: boolean;
  previous: boolean;
}

/** Reads until the log ends; `show` is called with the buffered text, at most once a frame. */
async function readLog(
  { pod, container, follow, previous }: LogQuery,
  show: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const query = new URLSearchParams({ id: pod, container, follow: String(follow), previous: String(previous) });
  const reply = await fetch(`/api/logs?${query}`, { signal });
  if (!reply.ok || !reply.body) {
    await readReply<unknown>(reply);
    return;
  }
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let frame = 0;
  const flush = () => {
    cancelAnimationFrame(frame);
    frame = 0;
    if (!signal.aborted) show(text);
  };
  show(text);
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    text = appendLines(text, value);
    frame ||= requestAnimationFrame(flush);
  }
  flush();
}
