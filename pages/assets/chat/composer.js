// The form for messages: sending, files, the completion of commands, edits of earlier
// messages, and the stop button.

import { startCompletion } from "./commands.js";
import { startFiles, unreadable } from "./files.js";
import { isComposing } from "./keys.js";
import { formOf, post, startUnsent } from "./unsent.js";

// A keyboard on the screen has no Shift+Enter, so there Enter begins a new line.
const touch = matchMedia("(pointer: coarse) and (hover: none)");

const rest = 1000; // ms after a click, in which a button takes no other

// newID returns the id of a message, by which it is taken once however often it is sent.
const newID = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");

export function startComposer(talk) {
  const form = document.getElementById("compose");
  const field = document.getElementById("text-field");
  const send = document.getElementById("send");
  const stop = document.getElementById("stop");
  const url = talk.dataset.url;
  const draftKey = () => `draft ${location.pathname}`; // of a chat that has not begun, that of the page for new ones

  const trouble = (words) => {
    const line = document.getElementById("trouble");
    line.textContent = words;
    line.hidden = !words;
  };
  const files = startFiles(form, field, trouble);
  const completion = startCompletion(field);
  const submitted = []; // messages that are not yet kept among the unsent ones
  let keeping = Promise.resolve();
  const conversation = () => talk.dataset.at.split("/")[0]; // that the page shows; "" for a new chat
  const editing = startEditing(field, conversation, grow, trouble);
  const unsent = startUnsent(url, restore);

  // restore puts a message back into the field: an edit as an edit, where that can begin.
  function restore({ text, seq, of, files: enclosed }) {
    if (!seq || of !== conversation() || !editing.begin(document.querySelector(`#messages > .user[data-seq="${seq}"]`), text)) {
      field.value = [text, field.value].filter(Boolean).join("\n\n");
    }
    files.add(enclosed ?? []);
    grow();
    field.focus();
  }

  // saveDraft keeps what is written for a reload of the page. A message that is not yet kept as
  // an unsent one is still a draft.
  function saveDraft() {
    if (!editing.seq()) keep(draftKey(), [...submitted.map(({ text }) => text), field.value].filter(Boolean).join("\n\n"));
  }

  function grow() {
    if (!CSS.supports("field-sizing", "content")) {
      field.style.height = "auto"; // set by script, which the content security policy allows
      field.style.height = `${field.scrollHeight}px`;
    }
    send.disabled = !field.value.trim() && !files.picked().length;
  }

  // submit keeps what is written, and the files with it, among the unsent messages, from where
  // it is sent. The field is free for the next one at once.
  function submit() {
    const text = field.value.trim();
    const seq = editing.seq();
    const picked = seq ? [] : files.picked();
    if (!text && !picked.length) return;
    const message = { id: newID(), text, seq, of: editing.of(), files: picked.map(({ file }) => file) };
    form.ariaBusy = "true";
    trouble("");
    dispatchEvent(new Event("sending"));
    if (seq) editing.end();
    else field.value = "";
    files.drop(picked);
    grow();
    submitted.push(message);
    keeping = keeping.then(() => keepUnsent(message));
  }

  async function keepUnsent(message) {
    const lost = await unreadable(message.files);
    if (!lost) await unsent.keep(message);
    submitted.shift();
    form.ariaBusy = String(submitted.length > 0);
    if (lost) {
      restore(message);
      trouble(lost);
      return;
    }
    if (location.pathname !== url) { // a new chat has an address from its first message on
      keep(draftKey(), "");
      history.replaceState(null, "", url);
    }
    saveDraft();
    unsent.flush();
  }

  // give sends a command for a button, which rests a moment: a double click is
  // meant as one.
  async function give(button, command) {
    if (button.disabled) return;
    const free = () => { button.disabled = false; };
    button.disabled = true;
    if (button === stop) setTimeout(free, rest); // the next answer may begin before the reply is there
    dispatchEvent(new Event("sending"));
    const { why } = await post(`${url}/messages`, formOf({ id: newID(), text: command }));
    trouble(why);
    setTimeout(free, why ? 0 : rest);
  }
  // regenerate asks an earlier message again, which begins another branch.
  async function regenerate(button, entry) {
    button.disabled = true;
    dispatchEvent(new Event("sending"));
    const { why } = await post(`${url}/edit`, formOf({ id: newID(), text: entry.querySelector(".bubble").textContent, seq: entry.dataset.seq, of: conversation() }));
    trouble(why);
    button.disabled = false;
  }
  const stopAnswer = () => give(stop, "/stop");

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  field.addEventListener("input", () => {
    saveDraft();
    grow();
  });
  field.addEventListener("keydown", (event) => {
    if (isComposing(event) || completion.takes(event)) return;
    if (event.key === "Enter" && !event.shiftKey && !event.altKey && (event.ctrlKey || event.metaKey || !touch.matches)) {
      event.preventDefault();
      submit();
    } else if (event.key === "ArrowUp" && !event.altKey && !field.value.trim() && editing.begin()) {
      event.preventDefault();
      grow();
    }
  });
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || isComposing(event) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && !document.querySelector("dialog[open]") && !event.target.closest("input")) {
      if (editing.seq()) editing.end();
      else if (!stop.hidden) stopAnswer();
      grow();
    } else if (event.key === "/" && !event.target.closest("input, textarea, select, [contenteditable]")) {
      event.preventDefault();
      field.focus();
    }
  });
  stop.addEventListener("click", () => {
    stopAnswer();
    if (!touch.matches) field.focus(); // the button is hidden with the answer
  });

  // Buttons that give a command: answer again, "Older", "Try again".
  addEventListener("submit", (event) => {
    if (!event.target.matches("form[data-send]")) return;
    event.preventDefault();
    const asked = event.target.matches(".retry") ? earlierQuestion(event.target.closest("li")) : null;
    if (asked) regenerate(event.target.querySelector("button"), asked);
    else give(event.target.querySelector("button"), event.target.elements.text.value);
    field.focus();
  });
  addEventListener("click", (event) => {
    const button = event.target.closest("[data-edit]");
    if (button && editing.begin(button.closest("li"))) grow();
  });

  const enterKey = () => { field.enterKeyHint = touch.matches ? "enter" : "send"; };
  touch.addEventListener("change", enterKey);
  enterKey();
  if (!field.value) field.value = kept(draftKey());
  stop.hidden = document.getElementById("answer").hidden;
  grow();
  return { working: (working) => { stop.hidden = !working; } };
}

// earlierQuestion returns the message that an answer is to, where something was said after
// it; null for the last answer.
function earlierQuestion(entry) {
  const asked = [...document.querySelectorAll("#messages > .user")];
  const before = asked.filter((one) => one.compareDocumentPosition(entry) & Node.DOCUMENT_POSITION_FOLLOWING).pop();
  return before && before !== asked.at(-1) ? before : null;
}

// startEditing puts a message back into the field, to be said anew. What had been begun
// there is back when the edit is sent or left.
function startEditing(field, conversation, changed, trouble) {
  const bar = document.getElementById("editing");
  let seq = "";
  let of = ""; // the conversation of the message
  let begun = "";
  const end = () => {
    if (seq) field.value = begun;
    seq = "";
    bar.hidden = true;
  };
  document.getElementById("stop-editing").addEventListener("click", () => { end(); changed(); field.focus(); });
  return {
    seq: () => seq,
    of: () => of,
    end,
    begin(entry = [...document.querySelectorAll("#messages > .user")].pop(), text = entry?.querySelector(".bubble").textContent) {
      if (!entry?.dataset.seq || entry.dataset.seq === "0") return false;
      if (document.getElementById("waiting").children.length) {
        trouble("The assistant is at work. Stop it first (Esc), or wait for its answer.");
        return false;
      }
      if (!seq) begun = field.value;
      seq = entry.dataset.seq;
      of = conversation();
      field.value = text;
      bar.hidden = false;
      field.focus();
      field.setSelectionRange(field.value.length, field.value.length);
      return true;
    },
  };
}

// What was begun and not sent survives a reload of the page.
function keep(key, text) {
  try {
    if (text) sessionStorage.setItem(key, text);
    else sessionStorage.removeItem(key);
  } catch { /* storage may be full or forbidden */ }
}
function kept(key) {
  try { return sessionStorage.getItem(key) ?? ""; } catch { return ""; }
}
