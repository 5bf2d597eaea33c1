// Renaming, pinning and archiving chats, with a moment to undo it. Unlike a deletion, a
// change is made at once, and the server says how it is undone. That is kept in the tab's
// storage, so that the next page still offers it.

import { undoMoment } from "./toast.js";

const key = "undo";

export class Changes {
  constructor(toast) {
    this.toast = toast;
    this.work = Promise.resolve(false);
    this.resume();
  }

  // settled returns a promise of whether the last change leads to another page. A page that
  // loads again before that would not learn how the change is undone.
  settled() { return this.work; }

  // make sends changes, one after the other and after those made before, and offers to undo
  // them in words. Each has the chat's address, its title, the name of the change and the
  // fields of its form; words takes the number of changes made. next is the address of the
  // page to show then, "" for this one.
  make(list, words, next = "") {
    return this.queue(() => this.send(list, words, next));
  }

  queue(step) {
    this.work = this.work.then(step);
    return this.work;
  }

  async send(list, words, next) {
    const steps = [];
    let failed = "";
    let made = 0;
    for (const one of list) {
      const { undo, why } = await post(`${one.url}/${one.action}`, one.fields);
      if (why) failed = `“${one.title}” was not changed. ${why}`;
      else made++;
      if (undo) steps.unshift(undo);
    }
    const text = [made ? words(made) : "", failed].filter(Boolean).join(" ");
    if (!steps.length) {
      if (failed) this.toast.tell(text);
      return made > 0 && go(next);
    }
    store({ text, steps, until: undoMoment() });
    this.resume();
    return go(failed ? "" : next);
  }

  // resume offers to undo what this page or the one before has changed.
  resume() {
    const last = stored();
    if (last && last.until > Date.now()) this.toast.offer(last.text, () => { this.queue(() => this.undo(last.steps)); }, last.until);
  }

  // forget gives up what could be undone.
  forget() { store(null); }

  async undo(steps) {
    this.forget();
    let failed = "";
    for (const { url, fields } of steps) {
      const { why } = await post(url, fields);
      if (why) failed = `It was not undone. ${why}`;
    }
    if (!failed) return go("");
    this.toast.tell(failed);
    return false;
  }
}

// post sends a form and returns how the change is undone, or why it was not made.
async function post(url, fields = {}) {
  try {
    const answer = await fetch(url, { method: "POST", body: new URLSearchParams(fields), headers: { Accept: "application/json" } });
    if (answer.status === 204) return {};
    const body = await answer.json();
    return answer.ok ? body : { why: body.detail };
  } catch {
    return { why: "The gateway can't be reached." };
  }
}

// go shows the page of an address, or this one anew if it has no stream that brings the list.
// It returns whether there is something to show.
function go(next) {
  const anew = !document.getElementById("compose");
  if (next) location.assign(next);
  else if (anew) location.reload();
  return Boolean(next) || anew;
}

function store(last) {
  try {
    if (last) sessionStorage.setItem(key, JSON.stringify(last));
    else sessionStorage.removeItem(key);
  } catch { /* it lasts as long as the page */ }
  memory = last;
}

function stored() {
  try { return JSON.parse(sessionStorage.getItem(key)) ?? memory; } catch { return memory; }
}

let memory = null;
