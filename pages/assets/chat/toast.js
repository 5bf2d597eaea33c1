// The line at the foot of the page that says for a moment what was done, with a button that
// takes it back.

import { released } from "../press.js";

const moment = 8000; // ms that a line is shown

export class Toast {
  constructor() {
    this.line = document.getElementById("toast");
    this.words = this.line.querySelector("span");
    this.button = this.line.querySelector("button");
    this.button.addEventListener("click", () => {
      const undo = this.undo;
      this.hide();
      undo?.();
    });
  }

  // tell shows a text without a button.
  tell(text) { this.show(text, null, Date.now() + moment); }

  // offer shows a text until a time, and calls undo if the button is pressed. A line that is
  // to be shown for longer stays.
  offer(text, undo, until) { if (!this.undo || this.until <= until) this.show(text, undo, until); }

  show(text, undo, until) {
    clearTimeout(this.timer);
    this.undo = undo;
    this.until = until;
    this.words.textContent = text;
    this.button.hidden = !undo;
    this.line.hidden = false;
    this.timer = setTimeout(async () => {
      await released();
      if (this.until === until) this.hide();
    }, Math.max(0, until - Date.now()));
  }

  hide() {
    clearTimeout(this.timer);
    if (this.line.contains(document.activeElement)) (document.querySelector("#chats a[aria-current]") ?? document.getElementById("new")).focus();
    this.line.hidden = true;
    this.undo = null;
  }

  // focus moves the focus to the button.
  focus() { if (this.canUndo()) this.button.focus(); }

  // canUndo reports whether there is a line with a button.
  canUndo() { return !this.line.hidden && Boolean(this.undo); }
}

// undoMoment returns the time until which what is done now can be undone.
export const undoMoment = () => Date.now() + moment;
