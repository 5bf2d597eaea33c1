// Messages that the gateway has not taken yet. They are kept in the browser's database, with
// their files, from before they are sent on, so that a reload in between loses none. They are
// sent in order, those that could not be sent when the gateway can be reached again. Each has
// an id by which the gateway takes it once, however often it is sent.

import { released } from "../press.js";

const retryAfter = 10_000; // ms between attempts while messages wait
const patience = 600; // ms after which a message that is on its way is shown
const silence = 45_000; // ms without a reply until a request counts as lost
const unreached = "The gateway can't be reached.";
const name = "parley";
const store = "unsent";

let opened;

function open() {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(store, { keyPath: "n", autoIncrement: true });
    request.onsuccess = () => {
      request.result.onclose = () => { opened = undefined; }; // the browser has closed it
      resolve(request.result);
    };
    request.onerror = () => reject(request.error);
  });
  opened.catch(() => { opened = undefined; });
  return opened;
}

async function query(mode, ask) {
  const database = await open();
  return new Promise((resolve, reject) => {
    const transaction = database.transaction(store, mode);
    const request = ask(transaction.objectStore(store));
    transaction.oncomplete = () => resolve(request.result);
    transaction.onabort = () => reject(transaction.error);
  });
}

// What the browser has no room for, or forbids to store, is kept as long as the page is open,
// and so is what follows it, which would be sent before it otherwise.
const memory = new Map();
addEventListener("beforeunload", (event) => { if (memory.size) event.preventDefault(); });

async function all() {
  const stored = await query("readonly", (rows) => rows.getAll()).catch(() => []);
  return [...stored.filter(({ n }) => !memory.has(n)), ...memory.values()];
}

const isKept = async (message) => (await all()).some(({ n }) => n === message.n);

async function add(message) {
  if (!memory.size) {
    try {
      await query("readwrite", (rows) => rows.put(message));
      return;
    } catch { /* it is kept in memory */ }
  }
  memory.set(message.id, { ...message, n: message.id });
}

// note keeps why a message was refused, "" to have it sent again, unless another tab has sent it
// or taken it back.
async function note(message, why) {
  if (!await isKept(message)) return;
  const noted = { ...message, why };
  if (memory.has(message.n)) memory.set(message.n, noted);
  else await query("readwrite", (rows) => rows.put(noted)).catch(() => memory.set(message.n, noted));
}

async function remove(n) {
  memory.delete(n);
  await query("readwrite", (rows) => rows.delete(n)).catch(() => {}); // a repeat is taken once
}

// deadline ends a request for which no reply comes, as after a change of the network: the next
// attempt takes another connection. Files may take any time.
function deadline(data) {
  return data.has("file") ? undefined : AbortSignal.timeout?.(silence);
}

// post sends a form's data. It returns what went wrong, in words, "" if nothing did, and
// whether another attempt may succeed without a change of the message.
export async function post(url, data) {
  let answer;
  try {
    answer = await fetch(url, { method: "POST", body: data, headers: { Accept: "application/json" }, signal: deadline(data) });
  } catch {
    return { why: unreached, later: true };
  }
  if (answer.redirected) return { why: unreached, later: true }; // a proxy leads to its own sign-in
  if (answer.ok) return { why: "", later: false };
  const later = [401, 429, 502, 503, 504].includes(answer.status); // 401: the page is about to ask for a sign-in
  try {
    return { why: (await answer.json()).detail || `The gateway refused it (${answer.status}).`, later };
  } catch {
    return { why: `The gateway refused it (${answer.status}).`, later };
  }
}

// formOf returns a message as the gateway takes it. An edit names the message by its seq in the
// conversation of.
export function formOf({ id, text, seq, of, files }) {
  const data = new FormData();
  data.set("text", text);
  data.set("id", id);
  if (seq) data.set("seq", seq);
  if (seq && of) data.set("conversation", of);
  for (const file of files ?? []) data.append("file", file, file.name || "picture.png");
  return data;
}

// startUnsent shows the unsent messages of a chat below its others, and sends those of all
// chats. restore puts a message back into the field.
export function startUnsent(chat, restore) {
  const list = document.getElementById("unsent");
  let isSending = false;
  let isReached = true; // the gateway, with the last attempt
  let underWay = {}; // the number of the message that is being sent, and the promise of that
  const tried = new Set(); // numbers of messages that are not sent a second time now
  const items = new Map(); // elements by the numbers of their messages
  let timer;
  let shown = "";

  async function show() {
    const messages = await all();
    await released();
    const here = messages.filter((message) => message.chat === chat);
    const now = JSON.stringify([isReached, here.map(({ n, why }) => [n, why])]);
    if (now !== shown) {
      const focused = list.contains(document.activeElement) ? document.activeElement : null;
      for (const [n, item] of items) if (!here.some((message) => message.n === n)) items.delete(n) && item.remove();
      here.forEach((message, i) => {
        if (!items.has(message.n)) items.set(message.n, element(message));
        const item = items.get(message.n);
        fill(item, message);
        if (list.children[i] !== item) list.insertBefore(item, list.children[i] ?? null);
      });
      if (focused && (!focused.isConnected || focused.hidden)) document.getElementById("text-field").focus();
      dispatchEvent(new Event("grown"));
    }
    shown = now;
    clearTimeout(timer);
    if (messages.some((message) => !message.why)) timer = setTimeout(flush, retryAfter);
  }

  function element(message) {
    const item = document.getElementById("unsent-entry").content.firstElementChild.cloneNode(true);
    const names = (message.files ?? []).map((file) => `📎 ${file.name || "picture"}`);
    item.querySelector(".bubble").textContent = [message.text, ...names].filter(Boolean).join("\n");
    item.querySelector("[data-again]").addEventListener("click", async () => {
      await note(message, "");
      tried.delete(message.n);
      flush();
    });
    item.querySelector("[data-restore]").addEventListener("click", () => takeBack(message));
    return item;
  }

  // fill shows in an element how it stands with its message.
  function fill(item, { why }) {
    const underWay = isReached && !why;
    item.querySelector("[data-why]").textContent = why || (underWay ? "Sending…" : "Not sent. It is sent when the connection is back.");
    item.classList.toggle("refused", Boolean(why));
    for (const button of item.querySelectorAll("button")) button.hidden = underWay;
  }

  // takeBack puts a message back into the field, unless the gateway has just taken it.
  async function takeBack(message) {
    if (underWay.n === message.n) await underWay.end;
    if (await isKept(message)) {
      await remove(message.n);
      restore(message);
    }
    show();
  }

  // send sends a message once, and returns whether the gateway was reached.
  async function send(message) {
    const { why, later } = await post(`${message.chat}/${message.seq ? "edit" : "messages"}`, formOf(message));
    isReached = !later;
    if (isReached && why) await note(message, why);
    else if (isReached) await remove(message.n);
    return isReached;
  }

  // flush sends what waits, in order, until the gateway can't be reached. A message that the
  // gateway has refused is sent again only when somebody says so.
  async function flush() {
    const late = setTimeout(show, patience);
    if (isSending) return;
    isSending = true;
    tried.clear();
    const next = async () => (await all()).find(({ n, why }) => !tried.has(n) && !why);
    for (let message = await next(); message; message = await next()) {
      tried.add(message.n);
      underWay = { n: message.n, end: send(message) };
      if (!await underWay.end) break;
      if (list.firstElementChild) await show();
    }
    underWay = {};
    clearTimeout(late);
    isSending = false;
    const before = shown;
    await show();
    const why = list.lastElementChild?.querySelector("[data-why]").textContent;
    if (why && shown !== before) document.getElementById("said").textContent = why;
  }

  addEventListener("online", flush);
  addEventListener("connected", flush); // the stream of the chat is there again
  flush();

  return { keep: (message) => add({ ...message, chat }), flush };
}
