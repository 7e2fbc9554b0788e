/** The session's figures: how full the model's context is, and what seeing ahead saved and cost. */

import { formatCount, h, setText, show } from "./dom.js";
import { amount } from "./usage.js";

export class Figures {
  /** @param {HTMLElement} element of the short form; hidden until something was measured */
  constructor(element) {
    this.element = element;
    this.context = h("b");
    this.fill = h("i");
    this.meter = h("div", { "class": "fill", "role": "meter", "aria-label": "How full the model's context is", "aria-valuemin": "0" }, this.fill);
    this.ahead = h("b");
    this.aheadRow = h("div", { class: "row" }, h("span", {}, "Seen ahead"), this.ahead);
    element.append(h("div", { class: "row" }, h("span", {}, "Model's context"), this.context), this.meter, this.aheadRow);
    this.reset();
  }

  /** A new session: nothing is measured yet. */
  reset() {
    this.stats = null;
    show(this.element, false);
  }

  /** `prefill.stats` @param {string} counts what the engine counts */
  take(stats, counts) {
    this.stats = stats;
    this.counts = counts;
    const { context_tokens: used, context_limit: limit, tokens_warmed, tokens_reused, tokens_wasted } = stats;
    show(this.element, true);
    setText(this.context, limit ? `${formatCount(used)} of ${amount(limit, counts)}` : amount(used, counts));
    show(this.meter, Boolean(limit));
    if (limit) {
      this.fill.style.width = `${Math.min(100, (100 * used) / limit).toFixed(1)}%`;
      this.meter.setAttribute("aria-valuenow", String(used));
      this.meter.setAttribute("aria-valuemax", String(limit));
    }
    show(this.aheadRow, this.seesAhead);
    const wasted = tokens_wasted ? ` · ${formatCount(tokens_wasted)} wasted` : "";
    setText(this.ahead, `${amount(tokens_warmed, counts)} · ${formatCount(tokens_reused)} reused${wasted}`);
  }

  get seesAhead() {
    return Boolean(this.stats?.warmups || this.stats?.tokens_reused);
  }

  /** The long form: term, figure, what it means. @returns {[string, string, string][]} */
  get rows() {
    if (!this.stats) return [];
    const { counts, stats } = this;
    const { context_tokens: used, context_limit: limit, warmups } = stats;
    const asked = stats.tokens_reused + stats.tokens_computed;
    const rows = [[
      "Context now", limit ? `${formatCount(used)} of ${amount(limit, counts)}` : amount(used, counts),
      "What the model was last given; the oldest part leaves when it is full",
    ]];
    if (!this.seesAhead) return rows;
    rows.push(["Seen ahead", amount(stats.tokens_warmed, counts), `Before any question, in ${formatCount(warmups)} ${warmups === 1 ? "step" : "steps"}`]);
    if (asked) {
      const share = Math.floor((100 * stats.tokens_reused) / asked);
      rows.push(["Reused", `${formatCount(stats.tokens_reused)} of ${amount(asked, counts)}`, `${share} % of what the questions needed was ready`]);
    }
    rows.push(["Wasted", amount(stats.tokens_wasted, counts), "Seen ahead, then dropped before a question needed it"]);
    return rows;
  }
}
