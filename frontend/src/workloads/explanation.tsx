/** Why a gang or pod is pending, or placed where it is: the scheduler's explanation. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { readReply } from "../data/actions";
import { now } from "../data/clock";
import { duration, formatMoment, splitId } from "../lib/format";
import { shortenText } from "./states";

interface PlacementReport {
  state: "Placed" | "Unschedulable" | "Schedulable" | "NotReady";
  explanation: {
    blocking_constraint: { text: string; kind: string };
    diagnoses: { group: string; summary: string }[];
    changes: { text: string }[];
    expected_start: number | null;
  } | null;
  planned_placement: { pods: { pod: string; node: string }[]; evicted: { gang: string; pods: string[] }[] } | null;
  not_ready: { reason: string; message: string } | null;
}

interface Explained {
  text: string;
  answer: PlacementReport;
}

const REFRESH_MS = 15_000;

/** Fetches the explanation when shown, when `hint` (the condition's message) changes, and periodically. */
export function PendingExplanation({ id, hint }: { id: string; hint: string }): JSX.Element {
  const { why, failed } = useExplanation(id, hint);
  if (failed) {
    return (
      <div class="why">
        <p class="why-text">{sentence(hint)}</p>
        <p class="faint">{failed}</p>
      </div>
    );
  }
  if (!why)
    return (
      <div class="why">
        <p class="why-text">{sentence(hint)}</p>
      </div>
    );
  return (
    <div class="why">
      <ExplanationText report={why.answer} hint={hint} />
      <PlainText text={why.text} />
    </div>
  );
}

function ExplanationText({ report, hint }: { report: PlacementReport; hint: string }): JSX.Element {
  const { explanation, not_ready: notReady, planned_placement: planned } = report;
  if (notReady) return <p class="why-text">{sentence(notReady.message)}</p>;
  if (planned) {
    return (
      <>
        <p class="why-text">It will be placed in the next scheduling cycle.</p>
        {planned.evicted.map((each) => (
          <p key={each.gang}>
            Preempts {each.pods.join(", ")} of {each.gang}.
          </p>
        ))}
      </>
    );
  }
  if (!explanation) return <p class="why-text">{report.state === "Placed" ? "It is placed." : sentence(hint)}</p>;
  const [smallest, ...others] = explanation.changes;
  const start = explanation.expected_start;
  return (
    <>
      <p class="why-text">{sentence(explanation.blocking_constraint.text)}</p>
      <dl class="why-facts">
        <div>
          <dt>Smallest change</dt>
          <dd>
            {smallest ? sentence(smallest.text) : "No single change was found that would make it schedulable."}
            {others.length > 0 && (
              <ul class="why-others">
                {others.map((each) => (
                  <li key={each.text}>or {localise(each.text)}</li>
                ))}
              </ul>
            )}
          </dd>
        </div>
        <div>
          <dt>Expected start</dt>
          <dd>
            {start === null
              ? "Unknown."
              : `in ${duration(Math.max(0, Math.round(start - now.value)))}, at ${formatMoment(start, now.value)}`}
          </dd>
        </div>
        {explanation.diagnoses.length > 0 && (
          <div>
            <dt>Node diagnosis</dt>
            <dd>
              {explanation.diagnoses.map((each) => (
                <p key={each.group}>
                  <b>{each.group}</b> {shortenText(each.summary)}
                </p>
              ))}
            </dd>
          </div>
        )}
      </dl>
    </>
  );
}

/** The explanation of a placement, fetched only when opened. */
export function PlacementExplanation({ id }: { id: string }): JSX.Element {
  const [open, setOpen] = useState(false);
  return (
    <details class="fold" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Why it is placed here</summary>
      {open && <PlacementText id={id} />}
    </details>
  );
}

function PlacementText({ id }: { id: string }): JSX.Element {
  const { why, failed } = useExplanation(id, "");
  return failed ? <p class="faint">{failed}</p> : <pre class="code wrapped">{why?.text ?? "…"}</pre>;
}

function PlainText({ text }: { text: string }): JSX.Element {
  return (
    <details class="fold">
      <summary>As text</summary>
      <pre class="code wrapped">{text}</pre>
    </details>
  );
}

function useExplanation(id: string, hint: string): { why: Explained | undefined; failed: string | undefined } {
  const [found, setFound] = useState<{ id: string; why?: Explained; failed?: string }>({ id });
  useEffect(() => {
    let current = true;
    const { namespace, name } = splitId(id);
    const fetchExplanation = async () => {
      try {
        const why = await readReply<Explained>(await fetch(`/api/why?${new URLSearchParams({ namespace, name })}`));
        if (current) setFound({ id, why });
      } catch (error) {
        if (current) setFound({ id, failed: (error as Error).message });
      }
    };
    void fetchExplanation();
    const timer = setInterval(fetchExplanation, REFRESH_MS);
    return () => {
      current = false;
      clearInterval(timer);
    };
  }, [id, hint]);
  const current = found.id === id ? found : undefined;
  return { why: current?.why, failed: current?.failed };
}

function sentence(text: string): string {
  const localised = localise(text);
  const whole = localised.charAt(0).toUpperCase() + localised.slice(1);
  return whole.endsWith(".") ? whole : `${whole}.`;
}

/** Shortened, with timestamps in local time; the case of the first letter is kept. */
function localise(text: string): string {
  const first = text.charAt(0);
  const short = first + shortenText(text).slice(1);
  return short.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (time) => formatMoment(Date.parse(time) / 1000, now.peek()));
}
