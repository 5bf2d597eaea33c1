// Deleting chats with a moment to undo it. A chat leaves the list at once, and is deleted
// on the server when the moment is over. What is to be deleted is kept in the browser's
// storage, so that the next page goes on where this one ended.

import { released } from "../press.js";
import { undoMoment } from "./toast.js";

const key = "deleting";

export class Removal {
  constructor(toast, changed) {
    this.toast = toast;
    this.changed = changed;
    this.leaving = new Set(); // addresses that are being deleted on the server
    addEventListener("storage", (event) => { if (event.key === key) this.changed(); }); // another tab
    this.resume();
  }

  stored() {
    try { return JSON.parse(localStorage.getItem(key)) ?? []; } catch { return this.memory ?? []; }
  }

  store(list) {
    this.memory = list;
    try { localStorage.setItem(key, JSON.stringify(list)); } catch { /* it lasts as long as the page */ }
  }

  has(url) {
    return this.leaving.has(url) || this.stored().some((one) => one.url === url);
  }

  // add deletes chats, each with its address and title, after a moment.
  add(list) {
    if (!list.length) return;
    const at = undoMoment();
    this.store([...this.stored(), ...list.map((one) => ({ ...one, at }))]);
    if (list.some((one) => one.url === (document.getElementById("main").dataset.url ?? location.pathname))) location.assign("/");
    else this.resume();
    this.changed();
  }

  resume() {
    clearTimeout(this.timer);
    const list = this.stored();
    if (!list.length) return;
    const until = Math.max(...list.map((one) => one.at));
    this.toast.offer(list.length === 1 ? `“${list[0].title}” was deleted.` : `${list.length} chats were deleted.`, () => this.undo(), until);
    const timer = setTimeout(async () => {
      await released(); // the button that takes it back may be pressed
      if (this.timer === timer) this.finish();
    }, Math.max(0, until - Date.now()));
    this.timer = timer;
  }

  undo() {
    clearTimeout(this.timer);
    this.store([]);
    this.changed();
  }

  async finish() {
    const list = this.stored();
    this.store([]);
    for (const { url } of list) this.leaving.add(url);
    for (const { url, title } of list) {
      let why = "The gateway can't be reached.";
      try {
        const answer = await fetch(`${url}/delete`, { method: "POST", headers: { Accept: "application/json" }, keepalive: true });
        why = answer.ok || answer.status === 404 ? "" : (await answer.json()).detail;
      } catch { /* the server is away */ }
      if (why) {
        this.leaving.delete(url);
        this.changed();
        this.toast.tell(`“${title}” was not deleted. ${why}`);
      }
    }
  }
}
