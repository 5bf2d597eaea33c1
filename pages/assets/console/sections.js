// What all pages of the console share: the looks of code, and its list of sections.
import { dress } from "../code.js";

dress(document);

// On a narrow screen the list of sections scrolls sideways; it begins where the section of this page is.
document.querySelector(".side [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
