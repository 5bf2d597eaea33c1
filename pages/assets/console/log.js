// Adds the lines of the log as they come.
const lines = document.getElementById("lines");
const live = document.getElementById("live");
const most = 2000; // lines that a page holds

const nearEnd = () => lines.scrollHeight - lines.scrollTop - lines.clientHeight < 40;
lines.scrollTop = lines.scrollHeight;

const stream = new EventSource(lines.dataset.stream);
stream.addEventListener("open", () => { live.textContent = "live"; });
stream.addEventListener("error", () => { live.textContent = "connecting again …"; });
stream.addEventListener("message", (event) => {
  const follow = nearEnd();
  const part = document.createElement("template");
  part.innerHTML = event.data; // made of a template of the gateway's, which escapes
  lines.append(part.content);
  while (lines.children.length > most) lines.firstElementChild.remove();
  document.getElementById("no-lines").hidden = true;
  if (follow) lines.scrollTop = lines.scrollHeight;
});
