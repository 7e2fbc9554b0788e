/** The conversation: which turn an event belongs to, dividers, following the newest words. */

import { h } from "./dom.js";
import { Turn } from "./turn.js";

const NEAR_END_PX = 90;

export class Transcript {
  /**
   * @param {HTMLElement} element scrolls
   * @param {import("./frames.js").FrameLog} log
   * @param {(open: boolean) => void} onOpenChange whether an answer is on its way
   */
  constructor(element, log, onOpenChange) {
    this.element = element;
    this.log = log;
    this.onOpenChange = onOpenChange;
    this.turns = []; // of this session
    this.follow = true;
    element.addEventListener("scroll", () => {
      this.follow = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_END_PX;
    });
    new ResizeObserver(() => this.scroll()).observe(element);
  }

  /** A question was sent. @param {object} when see Turn */
  ask(question, when) {
    return this.add(new Turn(question, when, this.log));
  }

  add(turn) {
    this.turns.push(turn);
    this.element.append(turn.element);
    this.follow = true;
    this.changed();
    return turn;
  }

  /** Route a server event. @returns {boolean} whether a turn took it */
  handle(event) {
    const turn = this.find(event);
    if (!turn) return false;
    switch (event.type) {
      case "response.start": turn.start(event); break;
      case "video.frames.consumed": turn.consumed(event); break;
      case "response.text.delta": turn.delta(event.delta); break;
      case "response.text.done": turn.textDone(event.text); break;
      case "response.done": turn.done(event); break;
      case "response.interrupted": turn.interrupted(event); break;
      case "error": turn.failed(event); break;
      default: return false;
    }
    this.changed();
    return true;
  }

  find(event) {
    const id = event.request_id;
    if (id != null) {
      const known = this.turns.find((turn) => turn.requestId === id);
      if (known) return known.open || event.type !== "error" ? known : undefined;
    }
    const waiting = this.turns.filter((turn) => turn.open && turn.requestId == null);
    if (event.type === "response.start") {
      return waiting.find((turn) => turn.question === event.question) ?? waiting[0]
        ?? this.add(new Turn(event.question, { asked_ms: performance.now(), clock_s: null, spoken: false }, this.log));
    }
    if (event.type === "error" && (id != null || event.event_type === "video.query")) return waiting[0];
    return undefined;
  }

  /** The connection went away: what was open will not be answered. */
  cut(reason) {
    for (const turn of this.turns) if (turn.open) turn.interrupted({ reason });
    this.changed();
  }

  /** A new session begins: request ids may start again, what is on the page stays. */
  newSession(text) {
    this.turns = [];
    if (!this.element.querySelector(".turn")) return;
    this.element.append(h("p", { class: "divider", role: "note" }, h("span", {}, text)));
    this.scroll();
  }

  changed() {
    this.onOpenChange(this.turns.some((turn) => turn.open));
    this.scroll();
  }

  scroll() {
    if (this.follow) this.element.scrollTop = this.element.scrollHeight;
  }
}
