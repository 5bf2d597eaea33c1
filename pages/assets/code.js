// Blocks of code get a button that copies them, and colours where their language is
// known. The highlighter is loaded when a page shows the first such block.

import { typeset } from "./math.js";

const grammars = new Map(); // name of a grammar -> promise of its colours being ready
let highlighter;

async function ready(grammar) {
  highlighter ??= import("./vendor/highlight/core.js").then((module) => module.default);
  const core = await highlighter;
  if (!grammars.has(grammar)) {
    grammars.set(grammar, import(`./vendor/highlight/languages/${grammar}.js`).then((module) => core.registerLanguage(grammar, module.default)));
  }
  await grammars.get(grammar);
  return core;
}

const longest = 100_000; // characters; colouring more would hold up the page

async function colour(code) {
  const grammar = code.dataset.grammar;
  delete code.dataset.grammar; // once
  const text = code.textContent;
  if (text.length > longest) return;
  try {
    const core = await ready(grammar);
    if (code.textContent === text) code.innerHTML = core.highlight(text, { language: grammar, ignoreIllegals: true }).value;
  } catch { /* it is readable without colours */ }
}

// dress adds what scripts give to rendered markdown: colours, buttons and formulas.
export function dress(element) {
  typeset(element);
  for (const button of element.querySelectorAll(".code .copy[hidden]")) button.hidden = false;
  for (const code of element.querySelectorAll("code[data-grammar]")) colour(code);
}

// copy puts a text on the clipboard, and says so on the button for a moment.
export async function copy(button, text) {
  let done = false;
  try {
    await navigator.clipboard.writeText(text);
    done = true;
  } catch { // without https, or forbidden
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "unseen";
    document.body.append(field);
    field.select();
    done = document.execCommand("copy");
    field.remove();
    button.focus();
  }
  const spoken = document.getElementById("said");
  if (spoken) spoken.textContent = done ? "Copied" : "This browser does not let the page copy";
  button.classList.toggle("done", done);
  if (button.matches(".code .copy")) button.textContent = done ? "Copied" : "Not copied";
  setTimeout(() => {
    button.classList.remove("done");
    if (button.matches(".code .copy")) button.textContent = "Copy";
  }, 1500);
}

addEventListener("click", (event) => {
  const button = event.target.closest(".code .copy");
  if (button) copy(button, button.closest(".code").querySelector("code").textContent);
});
