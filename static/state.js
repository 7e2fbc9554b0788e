/** What the page can be in, what may follow what, and what a person is told in each. */

/** Allowed successors of every state. */
export const TRANSITIONS = {
  "idle": ["asking-permission", "failed"],
  "asking-permission": ["connecting", "denied", "no-camera", "failed", "idle"],
  "connecting": ["live", "full", "failed", "lost", "idle"],
  "live": ["lost", "idle"],
  "lost": ["live", "full", "failed", "idle"],
  "full": ["connecting", "asking-permission", "idle"],
  "denied": ["asking-permission", "idle"],
  "no-camera": ["asking-permission", "idle"],
  "failed": ["asking-permission", "failed", "idle"],
};

/** States in which a camera or a connection is held, so that Stop means something. */
const ACTIVE = new Set(["asking-permission", "connecting", "live", "lost", "full"]);

export class Machine {
  /** @param {(state: string, detail: object) => void} onChange */
  constructor(onChange) {
    this.state = "idle";
    this.detail = {};
    this.onChange = onChange;
  }

  /** Go to `next`. @throws if the table does not allow it. */
  to(next, detail = {}) {
    if (!TRANSITIONS[this.state].includes(next)) {
      throw new Error(`state: ${this.state} cannot become ${next}`);
    }
    this.state = next;
    this.detail = detail;
    this.onChange(next, detail);
  }

  get active() {
    return ACTIVE.has(this.state);
  }
}

/**
 * The card over the camera: icon, title, text, and the label of the one button (or null).
 * `detail.message` is what was measured or answered; `detail.code` chooses the words.
 */
export function card(state, detail) {
  switch (state) {
    case "idle":
      return {
        icon: "eye", title: "Show it something, then ask",
        text: "Press Start and allow the camera and the microphone. Every answer shows the frames it was based on.",
        action: "Start",
      };
    case "asking-permission":
      return {
        icon: "lock", title: "Allow the camera",
        text: "Your browser asks for the camera and the microphone, usually at the top of the window.",
        action: null,
      };
    case "connecting":
      return { icon: "spinner", title: "Connecting", text: "Opening a path for video to the server.", action: null };
    case "lost":
      return {
        icon: "spinner", title: "Connection lost",
        text: detail.retry_s > 0
          ? `Your camera is still on and the conversation is kept. Next try in ${detail.retry_s} s.`
          : "Your camera is still on and the conversation is kept. Reconnecting now.",
        action: null, retry: "Try now",
      };
    case "denied":
      return {
        icon: "lock", title: "The camera is blocked",
        text: "Choose the camera or lock icon beside the address, allow the camera for this site, then try again. "
          + "If nothing is listed there, allow this browser to use the camera in the system's privacy settings.",
        action: "Try again",
      };
    case "no-camera":
      return {
        icon: "cameraOff", title: "No camera or microphone",
        text: "Connect one, or check that no other program uses it, then try again.",
        action: "Try again",
      };
    case "full":
      return {
        icon: "people", title: "The server is full",
        text: `${detail.message || "The server has as many sessions as it can serve."} Trying again in ${detail.retry_s} s.`,
        action: null, retry: "Try again now",
      };
    case "failed":
      return { icon: "alert", ...failure(detail), action: detail.code === "insecure" ? null : "Try again" };
    default:
      return null;
  }
}

function failure({ code, message }) {
  if (code === "insecure") {
    return {
      title: "The camera needs https or localhost",
      text: "Browsers give the camera only to secure pages. Open this page over https, or as http://localhost on the machine that serves it.",
    };
  }
  if (code === "unreachable") {
    return { title: "The server does not answer", text: "Check that it is running and that you are online, then try again." };
  }
  if (code === "no_path") {
    return {
      title: "No path for video",
      text: "The server answered, but WebRTC could not connect: a firewall or VPN may block UDP. Another network, or a TURN server in the settings, helps.",
    };
  }
  return { title: "That did not work", text: message || "The server refused the connection." };
}

const HELP = {
  no_frames: "No frame has arrived yet. Give the camera a second, check that it is not covered, then ask again.",
  engine_loading: "The engine was not ready yet. Your question is kept.",
  engine_died: "The engine stopped in the middle of this and is being restarted. Your question is kept.",
  no_audio: "Nothing was heard. Hold the button while you speak, or type the question.",
  no_speech: "No words were understood. Ask again, or type the question.",
  empty_question: "There was no question in that. Type one, or hold the button while you speak.",
  internal_error: "Something went wrong in the server. Ask again; if it keeps happening, its log says why.",
  decode_timeout: "Reading the frames took too long. Ask again in a moment.",
  overload: "The server is busy. Ask again in a moment.",
};

/** Errors after which the same question may well be answered. */
const PASSING = new Set(["no_frames", "decode_timeout", "overload", "internal_error"]);

/** Whether it makes sense to ask again after an error. */
export function passes(code) {
  return code.startsWith("engine_") || PASSING.has(code);
}

/** An error's code and message as help for a person. */
export function help(code, message) {
  return HELP[code] || message || "Something went wrong.";
}
