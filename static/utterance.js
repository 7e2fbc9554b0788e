/** Speech that is being heard or recognised, before it is a question. */

import { h, setText } from "./dom.js";
import { icon } from "./icons.js";

const FADE_MS = 400;

export class Utterance {
  /** @param {string} itemId */
  constructor(itemId) {
    this.itemId = itemId;
    this.text = "";
    this.words = h("span", { class: "question hint" }, "Listening…");
    this.element = h("div", { "class": "you speech", "data-role": "speech", "data-item-id": itemId, "data-status": "listening", "aria-live": "off" },
      icon("mic"), this.words, h("span", { class: "waves", "aria-hidden": "true" }, h("i"), h("i"), h("i")));
  }

  get listening() {
    return this.element.dataset.status === "listening";
  }

  /** What was understood so far. */
  say(text) {
    this.text = text;
    this.words.classList.toggle("hint", !text);
    setText(this.words, text || "Listening…");
  }

  /** The person has fallen silent. */
  stopped() {
    this.element.dataset.status = "recognising";
    if (!this.text) setText(this.words, "Recognising…");
  }

  /** It was nothing to answer. */
  fade() {
    this.element.dataset.status = "dropped";
    setTimeout(() => this.element.remove(), matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : FADE_MS);
  }
}
