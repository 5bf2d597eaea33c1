// Shows the changes of the chat that the server reports. stream.go says what each part of
// an update means.

import { dress } from "../code.js";
import { released } from "../press.js";
import { refresh } from "./controls.js";
import { changes, showList } from "./list.js";
import { patch, Thoughts } from "./patch.js";

const silence = 45_000; // ms without an event, of which one comes every 15 s, until a connection counts as dead
const gap = 1500; // ms without a connection until the page says so
const refused = 5000; // ms until the next attempt after the server has refused the stream

export function startStream(talk, composer) {
  const following = follow(document.getElementById("scroll"), document.getElementById("to-end"));
  addEventListener("sending", following.toEnd); // and not when it is sent: by then the reader may have moved up again
  addEventListener("grown", following.stay);
  const view = new View(talk);
  connect(talk, (update) => {
    view.apply(update);
    if (update.working !== undefined) composer.working(update.working);
    following.stay();
  });
}

// connect keeps a stream open while the page can be seen: a browser has but six
// connections for all its tabs. Each stream begins where the last one ended.
function connect(talk, apply) {
  const notice = document.getElementById("connection");
  let source = null;
  let lost, dead, again;

  const alive = () => {
    clearTimeout(lost);
    lost = undefined;
    clearTimeout(dead);
    notice.hidden = true;
    dead = setTimeout(reopen, silence);
  };
  const miss = () => { lost ??= setTimeout(() => { notice.hidden = false; }, gap); };

  function open() {
    if (source || document.hidden) return;
    source = new EventSource(`${talk.dataset.url}/events?at=${encodeURIComponent(talk.dataset.at)}`);
    source.onopen = () => {
      alive();
      dispatchEvent(new Event("connected"));
    };
    source.addEventListener("beat", alive);
    source.onmessage = async (event) => {
      alive();
      await released();
      const update = JSON.parse(event.data);
      if (update.reload) {
        close();
        changes.settled().then((leads) => { if (!leads) location.reload(); });
        return;
      }
      apply(update);
      talk.dataset.at = event.lastEventId;
    };
    source.onerror = () => {
      miss();
      if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
      close();
      miss();
      again = setTimeout(ask, refused);
    };
    dead = setTimeout(reopen, silence);
  }

  function close() {
    for (const timer of [lost, dead, again]) clearTimeout(timer);
    lost = undefined;
    source?.close();
    source = null;
  }

  function reopen() {
    close();
    miss();
    open();
  }

  // ask finds out why the stream was refused: when one has to sign in again, the
  // page that leads there is loaded.
  async function ask() {
    try {
      const answer = await fetch(talk.dataset.url, { method: "HEAD" });
      if (answer.redirected) location.reload();
    } catch { /* the server is away */ }
    open();
  }

  document.addEventListener("visibilitychange", () => { if (document.hidden) close(); else open(); });
  addEventListener("pagehide", close);
  addEventListener("pageshow", open); // also of a page that the back button brings out of the browser's memory
  addEventListener("online", reopen);
  open();
}

// follow keeps the newest text in sight while the reader is at the end. When the reader has
// moved up, however little, it leaves the page where it is.
export function follow(scroll, end) {
  const below = () => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight;
  let atEnd = true;
  let top = 0;
  const show = () => { end.hidden = atEnd || below() < 80; };
  const toEnd = () => {
    scroll.scrollTop = scroll.scrollHeight;
    top = scroll.scrollTop; // a move up before the event of this one is seen against it
    atEnd = true;
    show();
  };
  const stay = () => { if (atEnd) toEnd(); else show(); };
  scroll.addEventListener("scroll", () => {
    if (scroll.scrollTop < top) atEnd &&= below() < 2; // also where the end has come nearer
    else if (below() < 2) atEnd = true;
    top = scroll.scrollTop;
    show();
  }, { passive: true });
  end.addEventListener("click", toEnd);
  scroll.addEventListener("load", stay, { capture: true }); // a picture has got its height
  new ResizeObserver(stay).observe(scroll);
  const wanted = document.getElementById(location.hash.slice(1));
  if (wanted?.matches(".messages > *")) {
    atEnd = false;
    wanted.scrollIntoView();
  }
  stay();
  return { toEnd, stay };
}

// reloadOnce loads the page again, but not twice in a row.
function reloadOnce() {
  const last = Number(sessionStorage.getItem("reloaded") ?? 0);
  if (Date.now() - last < 10_000) return;
  sessionStorage.setItem("reloaded", Date.now());
  location.reload();
}

class View {
  constructor(talk) {
    this.talk = talk;
    for (const name of ["messages", "waiting", "answer", "calls", "text", "at-work", "chats", "title", "said", "empty", "menu"]) {
      this[name] = document.getElementById(name);
    }
    this.thoughts = new Thoughts(this.text);
    this.first = true;
  }

  apply(update) {
    if (update.entries) this.entries(update.entries);
    if (update.waiting !== undefined) for (const element of patch(this.waiting, update.waiting)) this.show(element);
    if (update.working !== undefined) {
      this.answer.hidden = !update.working;
      this.talk.toggleAttribute("data-working", update.working);
    }
    if (update.calls !== undefined) patch(this.calls, update.calls);
    if (update.blocks !== undefined) this.blocks(update.keep ?? 0, update.blocks);
    if (update.title !== undefined) this.name(update.title);
    if (update.chats !== undefined) showList(update.chats);
    if (this.messages.querySelector(".user, .assistant")) { // there is something to be renamed or deleted
      for (const entry of this.menu.querySelectorAll("[data-stored]")) entry.hidden = false;
    }
    if (this.empty && (this.messages.children.length || this.waiting.children.length)) {
      this.empty.remove();
      this.empty = null;
    }
    this.first = false;
  }

  // entries makes the end of the transcript as the server says it is. Entries above that,
  // which were loaded before, stay.
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
        if (!entry.html) { // another branch was chosen elsewhere, whose messages this page does not have
          reloadOnce();
          continue;
        }
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
    if (this.first || !element.matches(".assistant, .notice:not(.failed)")) return;
    if (document.getElementById(`w${element.id}`)) return; // it was told while a message waited
    const said = spoken(element);
    if (said) this.said.textContent = `The assistant: ${said}`;
  }

  // blocks replaces the end of the answer under way. Its last block may still
  // grow, so that is not coloured yet.
  blocks(keep, html) {
    const restore = this.thoughts.hold();
    while (this.text.children.length > keep) this.text.lastElementChild.remove();
    const holder = document.createElement("template");
    holder.innerHTML = html;
    this.text.append(holder.content);
    restore();
    for (const block of [...this.text.children].slice(0, -1)) dress(block);
  }

  name(title) {
    document.getElementById("title").textContent = title;
    document.title = `${title} · Parley`;
    const field = document.querySelector("[data-rename] input[name=title]");
    if (field && field !== document.activeElement) field.value = title;
  }

}

// spoken returns what a screen reader says of an entry: its text without the thoughts, which are
// folded, else the names of its pictures.
function spoken(element) {
  const texts = [...element.querySelectorAll(".prose > :not(.thought)")].map((block) => block.textContent);
  if (!texts.length) texts.push(...[...element.querySelectorAll("img")].map((picture) => picture.alt));
  return texts.join(" ").slice(0, 2000);
}
