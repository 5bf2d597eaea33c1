// Sends the code of a link, which stands behind the "#" of the address, and
// takes it out of the address and the history.
const code = location.hash.slice(1);
if (code) {
  history.replaceState(null, "", location.pathname);
  const form = document.querySelector("form");
  form.elements.code.value = code;
  form.submit();
}
