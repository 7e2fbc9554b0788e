/** What the server hears and speaks with, part by part, and what a person is told of each. */

const PARTS = ["activity", "recognition", "voice"];

export class SpeechParts {
  constructor() {
    this.parts = {}; // part → {status: off | loading | ready | failed, detail}
  }

  /** `/readyz` says how far each part is. */
  update(parts) {
    Object.assign(this.parts, parts);
  }

  /** `session.created` names what was there at that moment: a part gone since is loading again. */
  know({ activity, recognition, voices }) {
    const there = { activity: activity != null, recognition: recognition != null, voice: voices.length > 0 };
    for (const part of PARTS) {
      if (there[part]) this.parts[part] = { status: "ready", detail: "" };
      else if (this.ready(part)) this.parts[part] = { status: "loading", detail: "" };
    }
  }

  status(part) {
    return this.parts[part]?.status ?? "";
  }

  ready(part) {
    return this.status(part) === "ready";
  }

  get loading() {
    return PARTS.some((part) => this.status(part) === "loading");
  }

  /** `: why`, or nothing. */
  why(part) {
    const detail = (this.parts[part]?.detail ?? "").trim().replace(/\.$/, "");
    return detail && `: ${detail}`;
  }

  /** Why it cannot be spoken to; empty while that is not known. */
  get deafNote() {
    switch (this.status("recognition")) {
      case "loading": return "Speech recognition is loading… Type your question meanwhile.";
      case "off":
      case "failed": return `This server does not recognise speech${this.why("recognition")}; type your question.`;
      default: return "";
    }
  }

  /** Why there is push-to-talk only. */
  get handsNote() {
    switch (this.status("activity")) {
      case "loading": return "Hands-free is loading… Hold the button while you speak meanwhile.";
      case "off":
      case "failed": return `Hands-free is not available on this server${this.why("activity")}; hold the button or Space while you speak.`;
      default: return "";
    }
  }

  /** Why answers are not spoken. A voice that is switched off needs no word. */
  get muteNote() {
    switch (this.status("voice")) {
      case "loading": return "The voice is loading… Answers are text meanwhile.";
      case "failed": return `This server cannot speak${this.why("voice")}; answers are text.`;
      default: return "";
    }
  }
}
