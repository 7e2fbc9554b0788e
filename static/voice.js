/** How a person speaks: push-to-talk while the button or Space is held; hands-free comes later. */

import { setText, show } from "./dom.js";

const TAIL_MS = 200; // the microphone stays open this long after release: the last word is still under way

export class Voice {
  /** @param {{track: Function, live: Function, muted: Function, ask: (at_ms: number) => void}} hooks */
  constructor(view, hooks) {
    this.view = view;
    this.hooks = hooks;
    this.enabled = false; // the engine hears and there is a microphone
    this.held = false; // from pressing until TAIL_MS after release
    this.released = false;
    const { talkButton } = view;
    talkButton.addEventListener("pointerdown", (event) => {
      talkButton.setPointerCapture(event.pointerId);
      this.hold();
    });
    for (const name of ["pointerup", "pointercancel"]) talkButton.addEventListener(name, () => this.letGo());
    talkButton.addEventListener("contextmenu", (event) => event.preventDefault());
    window.addEventListener("keydown", (event) => this.key(event, true));
    window.addEventListener("keyup", (event) => this.key(event, false));
    window.addEventListener("blur", () => this.letGo());
  }

  apply(hears, microphone) {
    this.enabled = hears && microphone;
    show(this.view.talkButton, this.enabled);
    this.applyTrack();
  }

  key(event, down) {
    if (event.code !== "Space" || !this.enabled || !this.hooks.live()) return;
    const { target } = event;
    const elsewhere = target.closest?.("input, textarea, select, button, a, [contenteditable]");
    if (elsewhere && elsewhere !== this.view.talkButton) return;
    event.preventDefault();
    if (down && !event.repeat) this.hold();
    else if (!down) this.letGo();
  }

  hold() {
    if (!this.enabled || !this.hooks.live() || this.hooks.muted() || this.held) return;
    this.held = true;
    this.released = false;
    this.view.talkButton.classList.add("held");
    setText(this.view.talkButton.lastChild, "Release to ask");
    this.applyTrack();
  }

  letGo() {
    if (!this.held || this.released) return;
    this.released = true;
    const released_ms = performance.now();
    setTimeout(() => {
      this.held = false;
      this.view.talkButton.classList.remove("held");
      setText(this.view.talkButton.lastChild, "Hold to talk");
      this.applyTrack();
      if (this.hooks.live()) this.hooks.ask(released_ms);
    }, TAIL_MS);
  }

  /** The track is on unless muted; with push-to-talk only while held. */
  applyTrack() {
    const track = this.hooks.track();
    this.view.talkButton.disabled = this.hooks.muted();
    if (track) track.enabled = !this.hooks.muted() && (!this.enabled || this.held);
  }

  render(inSession, hears, missing) {
    const { view } = this;
    show(view.voice, inSession);
    view.voice.disabled = !(hears && missing == null);
    let note = "";
    if (missing === "denied") note = "The microphone is blocked for this site: type your question.";
    else if (missing) note = "No microphone was found: video only, type your question.";
    else if (!hears) note = "This engine does not hear yet: type your question.";
    view.voice.title = note;
    setText(view.voiceNote, note);
    show(view.voiceNote, inSession && note !== "");
  }
}
