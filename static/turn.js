/** One question and its answer on the page, with the evidence the answer was given. */

import { formatClock, h, prose, setText } from "./dom.js";
import { icon } from "./icons.js";
import { help, passes } from "./state.js";
import { timeBar } from "./timebar.js";
import { usageLine } from "./usage.js";

const SHOWN_FRAMES = 8; // the newest; the others open on demand
const TIME_IN_TEXT = /(\d+(?:\.\d+)?)\s?(?:seconds?|secs?|s)\b/g;
const CUT = {
  new_query: "stopped by the next question",
  speech: "interrupted by you",
  cancelled: "stopped",
  closed: "the session ended",
  lost: "the connection was lost",
};
const REASON = { still: "still", rate: "too soon", off: "", similar: "still" };

export class Turn {
  /**
   * @param {string} question empty for a spoken one whose words are not known yet
   * @param {{asked_ms: number, clock_s: number, itemId: ?string, unasked: ?boolean}} when
   *   `asked_ms` on performance.now(); `itemId` of the speech that asked it; `unasked`: the
   *   server answers by itself
   * @param {import("./frames.js").FrameLog} log
   * @param {(turn: Turn) => void} askAgain
   */
  constructor(question, { asked_ms, clock_s, itemId, unasked }, log, askAgain) {
    this.log = log;
    this.askAgain = askAgain;
    this.question = question;
    this.asked_ms = asked_ms;
    this.itemId = itemId ?? null;
    this.requestId = null;
    this.again = null; // the button that asks it again
    this.usage = null;
    this.speaks = false; // the answer is to be heard, too
    this.playback_ms = null; // how late it is heard
    this.status = "waiting";
    this.firstText_ms = null;
    this.text = "";
    this.heard = Infinity; // characters of `text`, of an answer that was cut while it was spoken
    this.words = h("span", { class: "question" }, question || (unasked ? "Unasked" : "Spoken question"));
    this.answer = h("span", { class: "answer-text" });
    const voicing = h("span", { class: "waves voicing", title: "speaking", "aria-hidden": "true" }, h("i"), h("i"), h("i"));
    this.line = h("p", { class: "words" }, this.answer, voicing);
    this.evidence = h("div", { class: "evidence" });
    const stamp = h("small", {}, itemId ? icon("mic") : unasked ? "unasked · " : null, formatClock(clock_s));
    this.element = h("article", { class: "turn", "data-status": "waiting", "aria-busy": "true" },
      h("div", { "class": "you", "data-item-id": itemId }, this.words, stamp),
      h("div", { class: "answer" }, this.line, h("div", { class: "thinking", "aria-hidden": "true" }, h("i"), h("i"), h("i")), this.evidence));
  }

  get open() {
    return ["waiting", "streaming", "speaking"].includes(this.status);
  }

  setStatus(status) {
    this.status = status;
    this.element.dataset.status = status;
    this.element.setAttribute("aria-busy", String(this.open));
  }

  /** `response.start` */
  start({ request_id, question }, speaks) {
    this.requestId = request_id;
    this.element.dataset.requestId = request_id;
    this.speaks = speaks;
    this.understood(question);
  }

  /** The words of the question. */
  understood(question) {
    if (question) setText(this.words, (this.question = question));
  }

  /** `response.text.delta` */
  delta(text) {
    const first = this.status === "waiting";
    if (first) this.setStatus("streaming");
    this.text += text;
    this.answer.append(text);
    if (first) this.measureFirstText();
  }

  /** The time at which the first words were on the screen; not measured in a hidden page. */
  measureFirstText() {
    if (document.hidden) return;
    requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel(); // its message comes after this frame's paint
      port1.onmessage = () => {
        if (document.hidden) return;
        this.firstText_ms = performance.now() - this.asked_ms;
        this.element.dataset.firstTextMs = this.firstText_ms.toFixed(1);
        if (this.timing) this.showTiming();
      };
      port2.postMessage(0);
    });
  }

  /** `response.text.done`: nothing is added any more, but it may still be spoken. */
  textDone(text) {
    const first = this.status === "waiting" && text;
    this.setText(text);
    this.setStatus(this.speaks && text ? "speaking" : "streaming");
    if (first) this.measureFirstText();
  }

  setText(text) {
    if (text === this.text) return;
    this.text = text;
    this.answer.replaceChildren(text);
  }

  /** `video.frames.consumed` */
  consumed({ frames }) {
    this.element.dataset.consumed = String(frames.length);
    const count = frames.length === 1 ? "1 frame was shown to the model" : `${frames.length} frames were shown to the model`;
    const line = h("p", { class: "count" }, frames.length ? count : "No frame was used for this answer");
    this.evidence.append(line);
    if (!frames.length) return;
    const strip = (this.strip = h("div", { class: "frames", tabindex: "0", role: "group", "aria-label": count }));
    const hidden = Math.max(0, frames.length - SHOWN_FRAMES);
    if (hidden) {
      this.earlier = h("button", { type: "button", class: "earlier", onclick: () => this.showEarlier() }, `+${hidden} earlier`);
      line.append(this.earlier);
    }
    frames.forEach((frame, index) => {
      const before = index > 0 ? this.gap(frames[index - 1].frame_id, frame.frame_id) : null;
      if (before && index <= hidden) before.classList.add("early");
      const figure = this.figure(frame);
      if (index < hidden) figure.classList.add("early");
      strip.append(...(before ? [before] : []), figure);
    });
    this.evidence.append(strip);
    strip.addEventListener("scroll", () => this.fade());
    strip.scrollLeft = strip.scrollWidth;
    this.fade();
  }

  figure(frame) {
    const known = this.log.frame(frame.frame_id);
    const time_s = frame.pts_ms != null ? frame.pts_ms / 1000 : known?.time_s;
    const label = time_s == null ? "" : `${time_s.toFixed(1)} s`;
    const data = { "data-frame-id": frame.frame_id, "data-time-s": time_s?.toFixed(3) };
    const picture = known?.src
      ? h("img", { ...data, src: known.src, alt: label ? `The camera at ${label}` : "A frame of the camera" })
      : h("div", { ...data, class: "unseen" }, icon("camera"));
    return h("figure", {}, picture, h("figcaption", {}, label));
  }

  gap(fromId, toId) {
    const gap = this.log.gap(fromId, toId);
    if (!gap) return null;
    const lines = [];
    if (gap.dropped) lines.push(String(gap.dropped), "dropped", REASON[gap.reason] ?? gap.reason);
    if (gap.skipped) lines.push(`${gap.skipped} kept`, "not shown");
    const title = gap.dropped ? `The most that changed in a dropped frame: ${(gap.peak * 100).toFixed(1)} %` : null;
    return h("div", { class: "gap", title }, ...lines.filter(Boolean).map((line) => h("span", {}, line)));
  }

  /** Fade the strip's left edge while there is more behind it. */
  fade() {
    this.strip.classList.toggle("more", this.strip.scrollLeft > 4);
  }

  showEarlier() {
    this.strip.classList.add("all");
    this.earlier.remove();
    this.strip.focus({ preventScroll: true });
    this.strip.scrollLeft = 0;
  }

  /** `response.done` @param {string} counts what its usage is counted in */
  done({ timing, usage }, counts) {
    this.usage = usage ? usageLine(usage, counts) : null;
    this.finish("done", timing);
  }

  /** `response.interrupted`, or a connection that went away. */
  interrupted({ reason, text, heard_text, timing }) {
    if (text != null) this.setText(text);
    if (heard_text != null) {
      this.heard = Math.min(heard_text.length, this.text.length);
      this.element.dataset.heard = heard_text;
    }
    this.finish("interrupted", timing);
    this.line.append(h("span", { class: "cut" }, `${this.text ? " — " : ""}${CUT[reason] ?? "interrupted"}`));
    if (reason === "lost") this.offerAgain();
  }

  /** An `error` of this turn. */
  failed({ code, message }) {
    this.finish("error");
    this.element.dataset.code = code;
    this.line.append(h("span", { class: "problem", title: message }, icon("alert"), h("span", {}, ...prose(help(code, message)))));
    if (passes(code)) this.offerAgain();
  }

  /** The question is kept: one press asks it again. */
  offerAgain() {
    if (!this.question) return; // it was only heard
    this.again = h("button", { type: "button", "class": "again", "data-action": "again", onclick: () => this.askAgain(this) }, icon("again"), "Ask again");
    this.line.after(this.again);
  }

  finish(status, timing) {
    this.setStatus(status);
    this.compose();
    this.timing = timing;
    if (timing) this.showTiming();
  }

  showTiming() {
    const bar = timeBar(this.timing, this.firstText_ms, this.playback_ms);
    this.evidence.querySelector(".time-bar")?.remove();
    if (bar) this.evidence.append(bar);
    if (this.usage) this.evidence.append(this.usage);
  }

  /** The final text: times are links, and what was cut before it could be heard is marked. */
  compose() {
    const heard = this.linked(this.text.slice(0, this.heard));
    const rest = this.linked(this.text.slice(this.heard));
    if (rest.length) this.answer.replaceChildren(...heard, h("span", { class: "unheard", title: "not heard" }, ...rest));
    else if (heard.some((part) => part instanceof Node)) this.answer.replaceChildren(...heard);
  }

  /** Text in which times that are times of the answer's frames are links to them. */
  linked(text) {
    const parts = [];
    let end = 0;
    for (const match of this.strip ? text.matchAll(TIME_IN_TEXT) : []) {
      const figure = this.figureAt(match[1]);
      if (!figure) continue;
      const link = h("button", { type: "button", class: "time-link", onclick: () => this.light(figure) }, match[0]);
      parts.push(text.slice(end, match.index), link);
      end = match.index + match[0].length;
    }
    return [...parts, text.slice(end)].filter((part) => part !== "");
  }

  figureAt(number) {
    const tolerance_s = number.includes(".") ? 0.06 : 0.5;
    const off = (node) => Math.abs(Number(node.dataset.timeS) - Number(number));
    const nodes = [...this.strip.querySelectorAll("[data-time-s]")].sort((a, b) => off(a) - off(b));
    return nodes.length && off(nodes[0]) <= tolerance_s ? nodes[0].closest("figure") : null;
  }

  light(figure) {
    if (figure.classList.contains("early")) this.showEarlier();
    for (const other of this.strip.querySelectorAll(".lit")) other.classList.remove("lit");
    figure.classList.add("lit");
    figure.scrollIntoView({ block: "nearest", inline: "center" });
  }
}
