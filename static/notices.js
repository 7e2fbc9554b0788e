/** Small messages that stay until they are dismissed; one per code. */

import { h } from "./dom.js";
import { icon } from "./icons.js";

export class Notices {
  /** @param {HTMLElement} element */
  constructor(element) {
    this.element = element;
  }

  add(code, text) {
    this.dismiss(code);
    const close = h("button", { type: "button", "aria-label": "Dismiss", onclick: () => this.dismiss(code) }, icon("close"));
    this.element.append(h("div", { class: "notice", "data-code": code }, icon("alert"), h("span", {}, text), close));
  }

  dismiss(code) {
    this.element.querySelector(`[data-code="${CSS.escape(code)}"]`)?.remove();
  }
}
