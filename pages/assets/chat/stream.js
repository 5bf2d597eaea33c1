// What changes in the chat, as the server tells it: see stream.go for the
// meaning of each part.

import { dress } from "../code.js";
import { refresh } from "./controls.js";

const near = 80; // pixels from the end at which a reader counts as being there

export function startStream(talk, composer) {
  const scroll = document.getElementById("scroll");
  const end = document.getElementById("to-end");
  const connection = document.getElementById("connection");
  const following = follow(scroll, end);
  const view = new View(talk);

  const source = new EventSource(`${talk.dataset.url}/events?at=${encodeURIComponent(talk.dataset.at)}`);
  let lost;
  source.onopen = () => {
    clearTimeout(lost);
    connection.hidden = true;
  };
  source.onerror = () => {
    clearTimeout(lost);
    lost = setTimeout(() => { connection.hidden = false; }, 1500); // a short gap needs no words
    if (source.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 5000); // refused: perhaps a new sign-in is needed
  };
  source.onmessage = (event) => {
    const update = JSON.parse(event.data);
    if (update.reload) {
      source.close();
      location.reload();
      return;
    }
    const stay = following();
    view.apply(update);
    if (update.working !== undefined) composer.working(update.working);
    stay();
  };
  addEventListener("pagehide", () => source.close());
}

// follow keeps the newest text in sight while the reader is at the end, and
// otherwise leaves the page where it is.
function follow(scroll, end) {
  const atEnd = () => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < near;
  const toEnd = () => { scroll.scrollTop = scroll.scrollHeight; };
  scroll.addEventListener("scroll", () => { end.hidden = atEnd(); }, { passive: true });
  end.addEventListener("click", () => { toEnd(); end.hidden = true; });
  if (!location.hash) toEnd();
  addEventListener("load", () => { if (!location.hash) toEnd(); });
  return () => {
    const was = atEnd();
    return () => { if (was) toEnd(); else end.hidden = atEnd(); };
  };
}

class View {
  constructor(talk) {
    this.talk = talk;
    for (const name of ["messages", "waiting", "answer", "calls", "text", "at-work", "chats", "title", "said", "empty", "menu"]) {
      this[name] = document.getElementById(name);
    }
    this.first = true;
  }

  apply(update) {
    if (update.entries) this.entries(update.entries);
    if (update.waiting !== undefined) this.waiting.innerHTML = update.waiting;
    if (update.working !== undefined) {
      this.answer.hidden = !update.working;
      this.talk.toggleAttribute("aria-busy", update.working);
    }
    if (update.calls !== undefined) this.put(this.calls, update.calls);
    if (update.blocks !== undefined) this.blocks(update.keep ?? 0, update.blocks);
    if (update.title !== undefined) this.name(update.title);
    if (update.chats !== undefined) this.list(update.chats);
    if (this.messages.querySelector(".user, .assistant")) this.menu.hidden = false; // there is something to be renamed or deleted
    if (this.empty && (this.messages.children.length || this.waiting.children.length)) {
      this.empty.remove();
      this.empty = null;
    }
    this.first = false;
  }

  // entries brings the end of the transcript to what the server says it is.
  // What stands above that, and was loaded before, stays.
  entries(list) {
    const ids = new Set(list.map((entry) => entry.id));
    const known = list.map((entry) => document.getElementById(entry.id)).find((element) => element);
    for (let element = known ?? this.messages.firstElementChild; element;) {
      const next = element.nextElementSibling;
      if (!ids.has(element.id)) element.remove();
      element = next;
    }
    let last = null;
    for (const entry of list) {
      let element = document.getElementById(entry.id);
      if (!element) {
        if (!entry.html) continue;
        element = this.make(entry.html);
        if (last) last.after(element);
        else if (known) known.before(element);
        else this.messages.append(element);
        this.show(element);
      }
      last = element;
    }
  }

  make(html) {
    const holder = document.createElement("template");
    holder.innerHTML = html;
    return holder.content.firstElementChild;
  }

  show(element) {
    dress(element);
    refresh(element);
    if (!this.first && element.matches(".assistant, .notice:not(.failed)")) {
      this.said.textContent = `The assistant: ${element.querySelector(".prose").textContent.slice(0, 2000)}`;
    }
  }

  // put replaces what an element holds, and keeps open what a reader has opened.
  put(element, html) {
    const open = [...element.querySelectorAll("details")].map((details) => details.open);
    element.innerHTML = html;
    element.querySelectorAll("details").forEach((details, i) => { details.open = open[i] ?? false; });
  }

  // blocks replaces the end of the answer under way. Its last block may still
  // grow, so that is not coloured yet.
  blocks(keep, html) {
    while (this.text.children.length > keep) this.text.lastElementChild.remove();
    const holder = document.createElement("template");
    holder.innerHTML = html;
    this.text.append(holder.content);
    for (const block of [...this.text.children].slice(0, -1)) dress(block);
  }

  name(title) {
    document.getElementById("title").textContent = title;
    document.title = `${title} · Parley`;
    const field = document.querySelector("[data-rename] input[name=title]");
    if (field && field !== document.activeElement) field.value = title;
  }

  list(html) {
    const open = this.chats.querySelector("details")?.open;
    const focused = this.chats.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    this.chats.innerHTML = html;
    const details = this.chats.querySelector("details");
    if (details && open) details.open = true;
    if (focused) [...this.chats.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
  }
}
