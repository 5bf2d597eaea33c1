// isComposing reports whether a key belongs to an input method, such as one for Japanese: Enter
// takes what it offers, and Escape drops it. Safari says so by the key's code alone.
export const isComposing = (event) => event.isComposing || event.keyCode === 229;
