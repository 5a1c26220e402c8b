/** The global search, usable by keyboard. */
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { showSearch } from "../app/keys";
import { navigate } from "../app/router";
import { Icon } from "../ui/icons";
import { find, type Target } from "./matcher";
import { targets } from "./targets";

/** Opened by Ctrl K, or "/" on a page without a filter box. */
export function SearchPalette(): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const list = useRef<HTMLUListElement>(null);
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const found = useMemo(() => find(targets(), text), [text]);
  useEffect(() => dialog.current?.showModal(), []);
  useEffect(
    () => list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }),
    [chosen, found],
  );

  const open = (target: Target | undefined) => {
    const href = target?.href();
    if (!href) return;
    dialog.current?.close();
    navigate(href);
  };
  const press = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      setChosen((chosen + step + found.length) % (found.length || 1));
    } else if (event.key === "Enter") {
      event.preventDefault();
      open(found[chosen]);
    }
  };

  return (
    <dialog
      ref={dialog}
      class="palette"
      aria-label="Search everything"
      onClose={() => (showSearch.value = false)}
      onClick={(event) => event.target === event.currentTarget && event.currentTarget.close()}
    >
      <label class="palette-box">
        <Icon name="search" />
        <input
          type="text"
          role="combobox"
          aria-label="Search everything by name"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={found.length ? `found-${chosen}` : undefined}
          autocomplete="off"
          spellcheck={false}
          placeholder="Search everything by name"
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setChosen(0);
          }}
          onKeyDown={press}
        />
        <kbd>Esc</kbd>
      </label>
      <ul id="palette-list" role="listbox" aria-label="Results" ref={list}>
        {found.map((target, at) => (
          <li
            key={`${target.kind} ${target.name} ${target.detail}`}
            id={`found-${at}`}
            role="option"
            aria-selected={at === chosen}
            onMouseMove={() => at !== chosen && setChosen(at)}
            onClick={() => open(target)}
          >
            <span class="palette-kind">{target.kind}</span>
            <span class="palette-name">{target.name}</span>
            <span class="palette-detail">{target.detail}</span>
          </li>
        ))}
      </ul>
      {found.length === 0 && <p class="palette-none">No results.</p>}
    </dialog>
  );
}
