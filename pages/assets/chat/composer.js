// The form for messages: sending, files, the completion of commands, edits of earlier
// messages, and the stop button.

import { startCompletion } from "./commands.js";
import { startFiles, unreadable } from "./files.js";
import { isComposing } from "./keys.js";
import { formOf, post, startUnsent } from "./unsent.js";

// A keyboard on the screen has no Shift+Enter, so there Enter begins a new line.
const touch = matchMedia("(pointer: coarse) and (hover: none)");

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
  const editing = startEditing(field, grow, trouble);
  const unsent = startUnsent(url, (message) => {
    field.value = [message.text, field.value].filter(Boolean).join("\n\n");
    files.add(message.files ?? []);
    grow();
    field.focus();
  });

  let sending = ""; // what was written of the message that is on its way and kept meanwhile
  let pending = null; // the message that was sent and not yet taken: a repeat is the same one

  // saveDraft keeps what is written for a reload of the page, without what is on its way.
  function saveDraft() {
    if (editing.seq()) return;
    const isOnItsWay = sending && field.value.startsWith(sending);
    keep(draftKey(), isOnItsWay ? field.value.slice(sending.length).trimStart() : field.value);
  }

  function grow() {
    if (!CSS.supports("field-sizing", "content")) {
      field.style.height = "auto"; // set by script, which the content security policy allows
      field.style.height = `${field.scrollHeight}px`;
    }
    send.disabled = !field.value.trim() && !files.picked().length;
  }

  async function submit() {
    const written = field.value;
    const text = written.trim();
    const sent = editing.seq() ? [] : files.picked();
    if ((!text && !sent.length) || form.ariaBusy === "true") return;
    const seq = editing.seq();
    const content = JSON.stringify([text, seq, sent.map(({ file }) => [file.name, file.size, file.lastModified])]);
    if (pending?.content !== content) pending = { content, id: newID() };
    const message = { id: pending.id, text, seq, files: sent.map(({ file }) => file) };
    form.ariaBusy = "true";
    trouble("");
    dispatchEvent(new Event("sending"));
    const lost = await unreadable(message.files);
    if (lost) {
      form.ariaBusy = "false";
      trouble(lost);
      return;
    }
    let row = seq ? undefined : await unsent.begin(message); // an edit must not be sent twice
    if (location.pathname !== url) { // a new chat has an address from its first message on
      keep(draftKey(), "");
      history.replaceState(null, "", url);
    }
    if (row !== undefined) sending = written;
    saveDraft();
    let { why, later } = unsent.waiting() ? { why: "Earlier messages wait.", later: true } : await post(`${url}/${seq ? "edit" : "messages"}`, formOf(message));
    if (why && later) {
      row ??= await unsent.begin(message);
      why = row === undefined ? `${why} Your message is still here; send it again when the connection is back.` : "";
    }
    await unsent.end(row, later);
    form.ariaBusy = "false";
    sending = "";
    if (why) {
      saveDraft();
      trouble(why);
      return;
    }
    pending = null;
    // What was written or picked meanwhile stays.
    if (field.value.startsWith(written)) field.value = field.value.slice(written.length).trimStart();
    if (seq && seq === editing.seq()) editing.end();
    files.drop(sent);
    saveDraft();
    grow();
  }

  // give sends a command for a button, which rests a moment: a double click is
  // meant as one.
  async function give(button, command) {
    if (button.disabled) return;
    button.disabled = true;
    dispatchEvent(new Event("sending"));
    const { why } = await post(`${url}/messages`, formOf({ id: newID(), text: command }));
    trouble(why);
    setTimeout(() => { button.disabled = false; }, why ? 0 : 1000);
  }
  // regenerate asks an earlier message again, which begins another branch.
  async function regenerate(button, entry) {
    button.disabled = true;
    dispatchEvent(new Event("sending"));
    const { why } = await post(`${url}/edit`, formOf({ id: newID(), text: entry.querySelector(".bubble").textContent, seq: entry.dataset.seq }));
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
function startEditing(field, changed, trouble) {
  const bar = document.getElementById("editing");
  let seq = "";
  let begun = "";
  const end = () => {
    if (seq) field.value = begun;
    seq = "";
    bar.hidden = true;
  };
  document.getElementById("stop-editing").addEventListener("click", () => { end(); changed(); field.focus(); });
  return {
    seq: () => seq,
    end,
    begin(entry = [...document.querySelectorAll("#messages > .user")].pop()) {
      if (!entry?.dataset.seq || entry.dataset.seq === "0") return false;
      if (document.getElementById("waiting").children.length) {
        trouble("The assistant is at work. Stop it first (Esc), or wait for its answer.");
        return false;
      }
      if (!seq) begun = field.value;
      seq = entry.dataset.seq;
      field.value = entry.querySelector(".bubble").textContent;
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
