/** The conversation: which turn or utterance an event belongs to, dividers, following the newest words. */

import { h, setText } from "./dom.js";
import { Turn } from "./turn.js";
import { Utterance } from "./utterance.js";

const NEAR_END_PX = 90;
const TRANSCRIPTION = "conversation.item.input_audio_transcription.";

export class Transcript {
  /**
   * @param {HTMLElement} element scrolls
   * @param {import("./frames.js").FrameLog} log
   * @param {{open: (open: boolean) => void, hearing: (hearing: boolean) => void,
   *   asked: () => {asked_ms: number, clock_s: number}, speaks: () => boolean,
   *   playback_ms: () => ?number, counts: () => string, ask: (question: string) => boolean}} hooks
   *   `open`: whether an answer is on its way; `asked`: when a question that now comes back was asked;
   *   `counts`: what the engine counts
   */
  constructor(element, log, hooks) {
    this.element = element;
    this.log = log;
    this.hooks = hooks;
    this.turns = []; // of this session
    this.utterances = new Map(); // item id → what is not a question yet
    this.follow = true;
    this.answering = false; // whether the engine would take a question
    element.addEventListener("scroll", () => {
      this.follow = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_END_PX;
    });
    new ResizeObserver(() => this.scroll()).observe(element);
  }

  /** A question was typed and sent. @param {object} when see Turn */
  ask(question, when) {
    return this.add(question, when);
  }

  add(question, when) {
    const turn = new Turn(question, when, this.log, (failed) => this.askAgain(failed));
    this.turns.push(turn);
    this.element.append(turn.element);
    this.follow = true;
    this.changed();
    return turn;
  }

  askAgain(turn) {
    if (this.hooks.ask(turn.question)) turn.again.remove();
  }

  /** Whether a question could be answered now: only then is asking again offered. */
  setAnswering(answering) {
    this.answering = answering;
    for (const button of this.element.querySelectorAll("[data-action=again]")) this.allow(button);
  }

  allow(button) {
    button.disabled = !this.answering;
    button.title = this.answering ? "" : "Once the engine is ready";
  }

  /** Route a server event. @returns {boolean} whether something here took it */
  handle(event) {
    if (event.type === "context.trimmed") {
      this.trimmed(event);
      return true;
    }
    const taken = event.item_id != null && event.type !== "response.start" ? this.hear(event) : this.answer(event);
    if (taken) this.changed();
    return taken;
  }

  // --- speech --------------------------------------------------------------------------

  hear(event) {
    const { type, item_id } = event;
    if (type === "input_audio_buffer.speech_started") {
      this.listen(item_id);
      return true;
    }
    const utterance = this.utterances.get(item_id);
    if (!utterance) {
      const turn = this.turns.find(({ itemId, requestId }) => item_id === itemId || item_id === requestId);
      if (turn && type === `${TRANSCRIPTION}completed`) turn.understood(event.transcript);
      return turn != null;
    }
    switch (type) {
      case `${TRANSCRIPTION}partial`: utterance.say(event.text); break;
      case `${TRANSCRIPTION}completed`: event.transcript ? utterance.say(event.transcript) : this.drop(utterance); break;
      case "input_audio_buffer.speech_stopped": event.backchannel ? this.drop(utterance) : utterance.stopped(); break;
      default: return false;
    }
    return true;
  }

  listen(itemId) {
    for (const other of this.utterances.values()) if (other.listening) this.drop(other); // one at a time is heard
    const utterance = new Utterance(itemId);
    this.utterances.set(itemId, utterance);
    this.element.append(utterance.element);
    this.follow = true;
  }

  drop(utterance) {
    this.utterances.delete(utterance.itemId);
    utterance.fade();
  }

  /** The server's ears are new: what the old ones have heard may not be followed by anything. */
  forgetSpeech() {
    for (const utterance of this.utterances.values()) this.drop(utterance);
    this.changed();
  }

  // --- answers -------------------------------------------------------------------------

  answer(event) {
    const turn = this.find(event);
    if (!turn) return false;
    turn.playback_ms ??= this.hooks.playback_ms();
    switch (event.type) {
      case "response.start": turn.start(event, this.hooks.speaks()); break;
      case "video.frames.consumed": turn.consumed(event); break;
      case "response.text.delta": turn.delta(event.delta); break;
      case "response.text.done": turn.textDone(event.text); break;
      case "response.done": turn.done(event, this.hooks.counts()); break;
      case "response.interrupted": turn.interrupted(event); break;
      case "error": turn.failed(event); break;
      default: return false;
    }
    if (turn.again) this.allow(turn.again);
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
      if (event.item_id != null) return this.spoken(event.item_id);
      if (event.unasked) return this.add(event.question, { ...this.hooks.asked(), itemId: null, unasked: true });
      return waiting.find((turn) => turn.question === event.question) ?? waiting[0]
        ?? this.add(event.question, { ...this.hooks.asked(), itemId: null });
    }
    if (event.type === "error" && (id != null || event.event_type === "video.query")) return waiting[0];
    return undefined;
  }

  /** What was heard becomes the question of a turn. */
  spoken(itemId) {
    const utterance = this.utterances.get(itemId);
    this.utterances.delete(itemId);
    utterance?.element.remove();
    return this.add(utterance?.text ?? "", { ...this.hooks.asked(), itemId });
  }

  // --- remarks -------------------------------------------------------------------------

  /** A quiet line in its time, before a question that waits; one of its kind just before is replaced. */
  remark(kind, text) {
    const next = this.turns.find(({ status }) => status === "waiting")?.element ?? null;
    let line = next ? next.previousElementSibling : this.element.lastElementChild;
    if (line?.dataset.remark === kind) line.setAttribute("aria-live", "off"); // once is enough to be told
    else {
      line = h("p", { "class": "remark", "data-remark": kind, "role": "note" });
      this.element.insertBefore(line, next);
    }
    setText(line, text(line));
    this.scroll();
  }

  /** `context.trimmed`: several in a row are one line that counts on. */
  trimmed({ frames, exchanges, message }) {
    this.remark("trimmed", (line) => {
      const { dataset } = line;
      const before = Number(dataset.frames ?? 0) + Number(dataset.exchanges ?? 0);
      dataset.frames = Number(dataset.frames ?? 0) + frames;
      dataset.exchanges = Number(dataset.exchanges ?? 0) + exchanges;
      return before ? `${message} ${inAll(dataset)}` : message;
    });
  }

  // --- sessions ------------------------------------------------------------------------

  /** The connection went away: what was open will not be answered. */
  cut(reason) {
    for (const turn of this.turns) if (turn.open) turn.interrupted({ reason });
    this.forgetSpeech();
  }

  /** A new session begins: request ids may start again, what is on the page stays. */
  newSession(text) {
    this.turns = [];
    if (!this.element.querySelector(".turn")) return;
    this.element.append(h("p", { class: "divider", role: "note" }, h("span", {}, text)));
    this.scroll();
  }

  changed() {
    this.hooks.open(this.turns.some((turn) => turn.open));
    this.hooks.hearing([...this.utterances.values()].some((utterance) => utterance.listening));
    this.scroll();
  }

  scroll() {
    if (this.follow) this.element.scrollTop = this.element.scrollHeight;
  }
}

function inAll({ frames, exchanges }) {
  const many = (count, word) => `${count} ${word}${count === "1" ? "" : "s"}`;
  const parts = [frames !== "0" && many(frames, "frame"), exchanges !== "0" && many(exchanges, "question")];
  return `So far: ${parts.filter(Boolean).join(" and ")}.`;
}
