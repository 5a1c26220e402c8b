/** The confirmation dialog of an action: confirms, performs it, shows the reply. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Confirmation, confirmation, performAction } from "../data/actions";

/** Mounted once; opens when a confirmation is requested. */
export function Confirm(): JSX.Element | null {
  const request = confirmation.value;
  return request ? <Dialog key={request.action.action + request.action.id} request={request} /> : null;
}

function Dialog({ request }: { request: Confirmation }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const [value, setValue] = useState(request.action.value ?? 1);
  const [busy, setBusy] = useState(false);
  const [reply, setReply] = useState<{ text: string; failed: boolean } | undefined>();
  useEffect(() => dialog.current?.showModal(), []);

  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const text = await performAction(request.input ? { ...request.action, value } : request.action);
      setReply({ text: text || "Done.", failed: false });
    } catch (error) {
      setReply({ text: (error as Error).message, failed: true });
    }
    setBusy(false);
  };

  return (
    <dialog
      ref={dialog}
      class="dialog"
      aria-labelledby="confirm-title"
      aria-describedby="confirm-text"
      onClose={() => (confirmation.value = undefined)}
    >
      <form onSubmit={submit}>
        <h2 id="confirm-title">{request.title}</h2>
        <p id="confirm-text">{request.text}</p>
        {request.input && (
          <label class="field">
            {request.input.label}
            <input
              type="number"
              min={request.input.minimum}
              max={request.input.maximum}
              required
              value={value}
              onInput={(event) => setValue(event.currentTarget.valueAsNumber)}
            />
          </label>
        )}
        <p role="status" class={reply ? (reply.failed ? "answer tone-bad" : "answer tone-good") : "visually-hidden"}>
          {reply?.text}
        </p>
        <div class="dialog-buttons">
          <button type="button" class="button" onClick={() => dialog.current?.close()}>
            {reply && !reply.failed ? "Close" : "Cancel"}
          </button>
          {(!reply || reply.failed) && (
            <button type="submit" class={`button ${request.danger ? "danger" : "primary"}`} disabled={busy}>
              {request.verb}
            </button>
          )}
        </div>
      </form>
    </dialog>
  );
}
