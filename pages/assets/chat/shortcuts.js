// Keyboard shortcuts, and the list of them. Keys that the field has for itself, such as
// Enter and Escape, are in composer.js.

import { isComposing } from "./keys.js";
import { toast } from "./list.js";

const mac = /Mac|iP(hone|ad|od)/.test(navigator.platform);

export function startShortcuts() {
  const dialog = document.getElementById("keys");
  for (const key of dialog.querySelectorAll("[data-mod]")) key.textContent = mac ? "⌘" : "Ctrl";
  for (const button of document.querySelectorAll("[data-keys]")) {
    button.hidden = false;
    button.addEventListener("click", () => dialog.showModal());
  }

  const writing = (event) => event.target.closest("input, textarea, select, [contenteditable]");
  const search = () => document.querySelector(".side .find input");
  const actions = [
    // The letter is compared in lower case: with Shift, browsers report it in upper case.
    { mod: true, shift: true, key: "o", run: () => document.getElementById("new").click() },
    { mod: true, key: "k", run: () => { dispatchEvent(new Event("open-side")); search().focus(); search().select(); } },
    { mod: true, shift: true, key: ";", run: copyAnswer },
    { mod: true, shift: true, key: ":", run: copyAnswer }, // the same key on keyboards that report what Shift makes of it
    { mod: true, key: "/", run: () => dialog.showModal() },
    { key: "?", shift: true, idle: true, run: () => dialog.showModal() },
    { mod: true, key: "z", idle: true, when: () => toast.canUndo(), run: () => toast.button.click() },
    { alt: true, key: "arrowup", run: () => step(-1) },
    { alt: true, key: "arrowdown", run: () => step(1) },
  ];

  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || isComposing(event) || document.querySelector("dialog[open]")) return;
    const action = actions.find((one) => one.key === event.key.toLowerCase() && Boolean(one.mod) === (event.ctrlKey || event.metaKey) &&
      Boolean(one.alt) === event.altKey && (Boolean(one.shift) === event.shiftKey || one.idle));
    if (!action || (action.idle && writing(event)) || action.when?.() === false) return;
    event.preventDefault();
    action.run();
  });
}

function copyAnswer() {
  const answers = document.querySelectorAll("#messages > .assistant [data-copy]");
  answers[answers.length - 1]?.click();
}

// step opens the chat above or below the one that is shown.
function step(by) {
  const lines = [...document.querySelectorAll("#chats a[href]")].filter((line) => line.offsetParent);
  const at = lines.findIndex((line) => line.matches("[aria-current]"));
  lines[at < 0 ? 0 : at + by]?.click();
}
