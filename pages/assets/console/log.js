// Appends log lines to the page as the gateway writes them.
const lines = document.getElementById("lines");
const live = document.getElementById("live");
const most = 2000; // lines that the page keeps; older ones are removed

const nearEnd = () => lines.scrollHeight - lines.scrollTop - lines.clientHeight < 40;
lines.scrollTop = lines.scrollHeight;

const stream = new EventSource(lines.dataset.stream);
stream.addEventListener("open", () => { live.textContent = "live"; });
stream.addEventListener("error", () => {
  live.textContent = stream.readyState === EventSource.CLOSED ? "Stopped. Reload the page to see new lines." : "connecting again …";
});
stream.addEventListener("message", (event) => {
  const follow = nearEnd();
  const part = document.createElement("template");
  part.innerHTML = event.data; // the gateway renders the line with a template that escapes it
  lines.append(part.content);
  while (lines.children.length > most) lines.firstElementChild.remove();
  document.getElementById("no-lines").hidden = true;
  if (follow) lines.scrollTop = lines.scrollHeight;
});
