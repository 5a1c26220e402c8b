/** The dialog before an action: asks, acts, shows the answer. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { perform, question, type Question } from "../actions";

/** Mounted once; shows itself when something is asked. */
export function Confirm(): JSX.Element | null {
  const asked = question.value;
  return asked ? <Dialog key={asked.act.act + asked.act.id} asked={asked} /> : null;
}

function Dialog({ asked }: { asked: Question }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const [replicas, setReplicas] = useState(asked.act.replicas ?? 1);
  const [busy, setBusy] = useState(false);
  const [answer, setAnswer] = useState<{ text: string; failed: boolean } | undefined>();
  useEffect(() => dialog.current?.showModal(), []);

  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const text = await perform(asked.scales ? { ...asked.act, replicas } : asked.act);
      setAnswer({ text: text || "Done.", failed: false });
    } catch (error) {
      setAnswer({ text: (error as Error).message, failed: true });
    }
    setBusy(false);
  };

  return (
    <dialog ref={dialog} class="dialog" aria-labelledby="confirm-title" aria-describedby="confirm-text" onClose={() => (question.value = undefined)}>
      <form onSubmit={submit}>
        <h2 id="confirm-title">{asked.title}</h2>
        <p id="confirm-text">{asked.text}</p>
        {asked.scales && (
          <label class="field">
            Replicas
            <input
              type="number"
              min={0}
              required
              value={replicas}
              onInput={(event) => setReplicas(event.currentTarget.valueAsNumber)}
            />
          </label>
        )}
        <p role="status" class={answer ? (answer.failed ? "answer tone-bad" : "answer tone-good") : "visually-hidden"}>
          {answer?.text}
        </p>
        <div class="dialog-buttons">
          <button type="button" class="button" onClick={() => dialog.current?.close()}>
            {answer && !answer.failed ? "Close" : "Cancel"}
          </button>
          {(!answer || answer.failed) && (
            <button type="submit" class={`button ${asked.danger ? "danger" : "primary"}`} disabled={busy}>
              {asked.verb}
            </button>
          )}
        </div>
      </form>
    </dialog>
  );
}
