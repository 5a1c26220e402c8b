/** Light or dark: as the system has it, or as the person chose. */
import { computed, effect, signal } from "@preact/signals";
import { palette } from "./colours";

export type Choice = "system" | "light" | "dark";

const KEPT = "kilonova-theme";
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const system = signal(systemDark.matches);

/** What the person chose. */
export const choice = signal<Choice>(kept());
/** What is shown; read it in whatever draws on a canvas, so that it draws again. */
export const theme = computed<"light" | "dark">(() =>
  choice.value === "system" ? (system.value ? "dark" : "light") : choice.value,
);

/** Chooses the next of system, light, dark. */
export function nextTheme(): void {
  const order: Choice[] = ["system", "light", "dark"];
  choice.value = order[(order.indexOf(choice.value) + 1) % order.length] ?? "system";
  localStorage.setItem(KEPT, choice.value);
}

/** Keeps the document in the theme. */
export function startTheme(): void {
  systemDark.addEventListener("change", () => (system.value = systemDark.matches));
  effect(() => {
    const root = document.documentElement;
    root.dataset.theme = theme.value;
    palette[theme.value].forEach((colour, at) => root.style.setProperty(`--owner-${at}`, colour));
  });
}

function kept(): Choice {
  const value = localStorage.getItem(KEPT);
  return value === "light" || value === "dark" ? value : "system";
}
