/** The answers' voice on this page: playing it, switching it off, and sound that a browser blocks. */

import { setText, show } from "./dom.js";
import { icon } from "./icons.js";

const ANSWERS_ID = "sightline-answers"; // Gradio's checkboxes in the settings

export class Speaker {
  /** @param {() => void} onSwitch the voice was switched here, not in the settings */
  constructor(view, settings, onSwitch) {
    this.view = view;
    this.wanted = wants(settings); // as the settings said last
    this.on = this.wanted;
    view.voice.addEventListener("click", () => {
      this.on = !this.on;
      this.apply();
      this.tellSettings();
      onSwitch();
    });
    view.sound.addEventListener("click", () => this.play());
    this.apply();
  }

  /** The settings were changed: whoever touched the voice last is right. */
  settingsChanged(settings) {
    if (wants(settings) === this.wanted) return;
    this.on = this.wanted = wants(settings);
    this.apply();
  }

  /** The settings' kinds of answer, with the voice as it is switched here. */
  modalities(settings) {
    const kinds = (settings.modalities ?? ["text"]).filter((kind) => kind !== "audio");
    if (this.on) kinds.push("audio");
    return kinds.length ? kinds : ["text"];
  }

  tellSettings() {
    const box = document.querySelector(`#${ANSWERS_ID} input[name="audio"]`);
    if (box && box.checked !== this.on) box.click();
  }

  apply() {
    const { speaker, voice, voiceIcon } = this.view;
    speaker.muted = !this.on; // at once, also in the middle of an answer
    voice.setAttribute("aria-pressed", String(this.on));
    voice.title = this.on ? "Answers are spoken" : "Answers are not spoken";
    voiceIcon.replaceChildren(icon(this.on ? "speaker" : "speakerOff"));
  }

  /** @param {?MediaStream} stream null: nothing any more */
  use(stream) {
    this.view.speaker.srcObject = stream;
    if (stream) this.play();
    else show(this.view.sound, false);
  }

  async play() {
    try {
      await this.view.speaker.play();
      show(this.view.sound, false);
    } catch (error) {
      if (error.name === "NotAllowedError") show(this.view.sound, true);
    }
  }

  /** @param {boolean} inSession @param {import("./engine.js").EngineWatch} engine */
  render(inSession, engine) {
    const { voice, voiceLabel } = this.view;
    show(voice, inSession && (engine.speaks || engine.speech.muteNote !== ""));
    voice.disabled = !engine.speaks;
    setText(voiceLabel, "Voice");
  }
}

const wants = (settings) => settings.modalities?.includes("audio") ?? false;
