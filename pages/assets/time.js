// Shows times in the browser's zone and format. The server does not know either, so it
// writes its own, which stay where no script runs. data-form says how a time is shown:
// "moment" as short as it can be understood, "stamp" to the second, "ago" by its distance
// from now, "minute", "hour", "day" and "week" as the label of such a part of a plot. "left" is
// no time but a wait, which is counted down.

const format = (options) => new Intl.DateTimeFormat(undefined, options);
const full = format({ weekday: "long", year: "numeric", month: "long", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" });
const forms = {
  minute: format({ hour: "2-digit", minute: "2-digit" }),
  hour: format({ weekday: "short", hour: "2-digit", minute: "2-digit" }),
  day: format({ weekday: "short", day: "numeric", month: "short" }),
  week: format({ day: "numeric", month: "short", year: "numeric" }),
  stamp: format({ year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" }),
  sameYear: format({ day: "numeric", month: "short" }),
};
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" });

// midnight returns the beginning of the day of a date.
export const midnight = (date) => new Date(date.getFullYear(), date.getMonth(), date.getDate());

function moment(date, now) {
  if (midnight(date).getTime() === midnight(now).getTime()) return forms.minute.format(date);
  return (date.getFullYear() === now.getFullYear() ? forms.sameYear : forms.week).format(date);
}

function ago(date, now) {
  const minutes = Math.trunc((date - now) / 60_000);
  if (minutes === 0) return relative.format(0, "second"); // "now"
  if (minutes > -60) return relative.format(minutes, "minute");
  const hours = Math.trunc(minutes / 60);
  return hours > -48 ? relative.format(hours, "hour") : relative.format(Math.trunc(hours / 24), "day");
}

// countDown shows what is left of a wait, once a second. The end is reckoned from when the
// element came, since the clock of the server may be another.
function countDown(time) {
  delete time.dataset.form; // once
  const end = Date.now() + Number.parseInt(time.dateTime.slice("PT".length), 10) * 1000;
  const tick = () => {
    const seconds = Math.ceil((end - Date.now()) / 1000);
    time.textContent = seconds > 0 ? until(seconds) : "now";
    if (seconds > 0 && time.isConnected) setTimeout(tick, 1000);
  };
  tick();
}

const inEnglish = new Intl.RelativeTimeFormat("en"); // as is the sentence around it
const until = (seconds) => (seconds < 120 ? inEnglish.format(seconds, "second") : inEnglish.format(Math.ceil(seconds / 60), "minute"));

function show(time, now = new Date()) {
  if (time.dataset.form === "left") {
    countDown(time);
    return;
  }
  const date = new Date(time.dateTime);
  if (Number.isNaN(date.getTime())) return;
  const { form } = time.dataset;
  const text = form === "moment" ? moment(date, now) : form === "ago" ? ago(date, now) : forms[form]?.format(date);
  if (text && time.textContent !== text) time.textContent = text;
  time.title = full.format(date);
}

const selector = "time[data-form]";
const showAll = () => { for (const time of document.querySelectorAll(selector)) show(time); };

showAll();
new MutationObserver((changes) => {
  for (const { addedNodes } of changes) {
    for (const node of addedNodes) {
      if (node.nodeType !== Node.ELEMENT_NODE) continue;
      if (node.matches(selector)) show(node);
      for (const time of node.querySelectorAll(selector)) show(time);
    }
  }
}).observe(document.documentElement, { childList: true, subtree: true });
setInterval(showAll, 60_000); // "5 minutes ago" goes on, and today ends at midnight
