/** How a person speaks: hands-free, or while the button or Space is held. */

import { setText, show } from "./dom.js";

const TAIL_MS = 200; // the microphone stays open this long after release: the last word is still under way
const STORED = "sightline.voice-mode";
const HANDS_FREE = "hands-free";
const PUSH_TO_TALK = "push-to-talk";

export class Voice {
  /**
   * @param {{track: () => ?MediaStreamTrack, live: () => boolean, muted: () => boolean,
   *   send: (event: object) => boolean, detect: (detection: ?object) => void, changed: () => void}} hooks
   *   `detect`: the server is to listen in another way, or (null) not at all; `changed`: a person chose
   */
  constructor(view, hooks) {
    this.view = view;
    this.hooks = hooks;
    this.chosen = localStorage.getItem(STORED) ?? HANDS_FREE;
    this.possible = { hears: false, handsFree: false };
    this.told = null; // `detection` as the server knows it
    this.held = false; // from pressing until TAIL_MS after release
    this.released = false;
    const { talkButton } = view;
    talkButton.addEventListener("pointerdown", (event) => {
      talkButton.setPointerCapture(event.pointerId);
      this.hold();
    });
    for (const name of ["pointerup", "pointercancel"]) talkButton.addEventListener(name, () => this.letGo());
    talkButton.addEventListener("contextmenu", (event) => event.preventDefault());
    view.modes.addEventListener("change", ({ target }) => this.choose(target.value));
    window.addEventListener("keydown", (event) => this.key(event, true));
    window.addEventListener("keyup", (event) => this.key(event, false));
    window.addEventListener("blur", () => this.letGo());
  }

  get handsFree() {
    return this.possible.handsFree && this.chosen === HANDS_FREE;
  }

  /** Whether what is said while the button is held is a question. */
  get pushToTalk() {
    return this.possible.hears && !this.handsFree;
  }

  /** `turn_detection` of the session. */
  get detection() {
    if (!this.possible.hears) return null;
    return { type: this.handsFree ? "server_vad" : "push_to_talk" };
  }

  /** `turn_detection` for a new session, which so is told. */
  begin() {
    this.told = this.detection;
    return this.told;
  }

  choose(mode) {
    this.chosen = mode;
    localStorage.setItem(STORED, mode);
    this.abandon();
    this.sync();
    this.hooks.changed();
  }

  /** What can be done now; the server is told where that changes how it should listen. */
  allow({ hears, handsFree }) {
    this.possible = { hears, handsFree: hears && handsFree };
    if (!hears) this.abandon();
    this.sync();
  }

  sync() {
    if (this.hooks.live() && this.detection?.type !== this.told?.type) {
      this.told = this.detection;
      this.hooks.detect(this.told);
    }
    this.applyTrack();
    this.draw();
  }

  key(event, down) {
    if (event.code !== "Space" || !this.pushToTalk || !this.hooks.live()) return;
    if (down && !this.isFree(event.target)) return;
    if (!down && !this.held) return;
    event.preventDefault();
    if (down && !event.repeat) this.hold();
    else if (!down) this.letGo();
  }

  /** Whether Space means nothing to what has the focus. */
  isFree(target) {
    const { talkButton, question, modes } = this.view;
    if (target === talkButton || modes.contains(target) || (target === question && !question.value)) return true;
    return !target.closest?.("input, textarea, select, button, a, [contenteditable]");
  }

  hold() {
    if (!this.pushToTalk || !this.hooks.live() || this.hooks.muted() || this.held) return;
    this.held = true;
    this.released = false;
    this.applyTrack();
    this.hooks.send({ type: "input_audio_buffer.clear" });
    this.draw();
  }

  letGo() {
    if (!this.held || this.released) return;
    this.released = true;
    this.tail = setTimeout(() => {
      this.abandon();
      this.hooks.send({ type: "input_audio_buffer.commit" });
    }, TAIL_MS);
  }

  /** Whatever was being said is not asked. */
  abandon() {
    clearTimeout(this.tail);
    this.held = this.released = false;
    this.applyTrack();
    this.draw();
  }

  /** The track is on unless muted; with push-to-talk only while held. */
  applyTrack() {
    const track = this.hooks.track();
    if (track) track.enabled = !this.hooks.muted() && (!this.pushToTalk || this.held);
  }

  draw() {
    const { talkButton, modes, handsFree, pushToTalk } = this.view;
    show(talkButton, this.hooks.live() && this.pushToTalk);
    talkButton.disabled = this.hooks.muted();
    talkButton.classList.toggle("held", this.held);
    setText(talkButton.lastChild, this.held ? "Release to ask" : "Hold to talk");
    modes.disabled = !this.possible.hears;
    handsFree.disabled = !this.possible.handsFree;
    handsFree.checked = this.chosen === HANDS_FREE && (this.possible.handsFree || !this.possible.hears);
    pushToTalk.checked = !handsFree.checked;
  }

  /** @param {boolean} inSession @param {?string} missing why there is no microphone @param {string} note */
  render(inSession, missing, note) {
    const { modes, voiceNote } = this.view;
    if (missing === "denied") note = "The microphone is blocked for this site: type your question.";
    else if (missing) note = "No microphone was found: video only, type your question.";
    show(modes, inSession);
    modes.title = note;
    setText(voiceNote, note);
    show(voiceNote, inSession && note !== "");
    this.draw();
  }
}
