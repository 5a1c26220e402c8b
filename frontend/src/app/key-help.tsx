/** The list of keyboard shortcuts. */
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { showKeys } from "./keys";
import { pages } from "./pages";

/** Opened by "?". */
export function KeyHelp(): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const keys: [string[], string][] = [
    [["/"], "Filter this page"],
    [["Ctrl", "K"], "Search everything"],
    ...pages.filter((page) => page.key).map((page): [string[], string] => [["g", page.key], page.title]),
    [["↑", "↓"], "Move in a table"],
    [["Enter"], "Open the row"],
    [["Esc"], "Close the topmost panel or dialog"],
    [["?"], "This list"],
  ];
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby="keys-title" onClose={() => (showKeys.value = false)}>
      <h2 id="keys-title">Keys</h2>
      <dl class="keys">
        {keys.map(([pressed, what]) => (
          <div key={what}>
            <dt>
              {pressed.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog" class="dialog-buttons">
        <button type="submit" class="button">
          Close
        </button>
      </form>
    </dialog>
  );
}
