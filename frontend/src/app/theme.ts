/** Light or dark theme: the system's, or the user's choice. */
import { computed, effect, signal } from "@preact/signals";
import { palette } from "../lib/owner-colours";

export type Choice = "system" | "light" | "dark";

const STORAGE_KEY = "kilonova-theme";
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const system = signal(systemDark.matches);

/** The user's choice. */
export const choice = signal<Choice>(readStoredChoice());
/** The effective theme; code that paints a canvas reads it to repaint on changes. */
export const theme = computed<"light" | "dark">(() =>
  choice.value === "system" ? (system.value ? "dark" : "light") : choice.value,
);

/** Switches to the next of system, light, dark. */
export function nextTheme(): void {
  const order: Choice[] = ["system", "light", "dark"];
  choice.value = order[(order.indexOf(choice.value) + 1) % order.length] ?? "system";
  localStorage.setItem(STORAGE_KEY, choice.value);
}

/** Applies the theme to the document, and follows changes. */
export function startTheme(): void {
  systemDark.addEventListener("change", () => (system.value = systemDark.matches));
  effect(() => {
    const root = document.documentElement;
    root.dataset.theme = theme.value;
    for (const [at, colour] of palette[theme.value].entries()) root.style.setProperty(`--owner-${at}`, colour);
  });
}

function readStoredChoice(): Choice {
  const value = localStorage.getItem(STORAGE_KEY);
  return value === "light" || value === "dark" ? value : "system";
}
