/** One WebRTC peer: offer and answer, the `events` data channel, the heartbeat. */

import { PlaybackDelay } from "./playback.js";

const GATHER_LIMIT_MS = 1500; // ICE candidates that come later are not waited for
const CONNECT_LIMIT_MS = 15_000; // offer sent → session.created
const PONG_LIMIT_MS = 3000;
const DISCONNECTED_LIMIT_MS = 2000;

/** The server said no. `code` is the protocol's, `status` the HTTP status. */
export class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** Something between here and the server does not work: `unreachable` or `no_path`. */
export class NoPath extends Error {
  constructor(code) {
    super(code);
    this.code = code;
  }
}

export class Connection {
  /**
   * @param {{video: ?MediaStreamTrack, audio: ?MediaStreamTrack, heard: boolean}} media
   *   `heard`: audio is sent from the beginning, not only once `hear` is called
   * @param {object} config fields of `session.config`
   * @param {{event: Function, lost: Function, speaker: Function, rtt: Function}} hooks
   */
  constructor(media, config, hooks) {
    this.id = crypto.randomUUID();
    this.media = media;
    this.config = config;
    this.hooks = hooks;
    this.closed = false;
    this.lastPong = 0;
    this.abort = new AbortController();
  }

  /** Resolves with the `session.created` event. @throws {Refused|NoPath} */
  async open() {
    const { iceServers, heartbeat_ms } = await this.fetchJson("/webrtc/config");
    const pc = (this.pc = new RTCPeerConnection({ iceServers }));
    const created = new Promise((resolve, reject) => {
      this.onCreated = resolve;
      this.onBroken = reject;
    });
    created.catch(() => {}); // may be rejected before it is awaited
    this.addMedia(pc);
    this.addChannel(pc);
    pc.addEventListener("connectionstatechange", () => this.watchState());
    await pc.setLocalDescription(await pc.createOffer());
    await gathered(pc);
    const body = { sdp: pc.localDescription.sdp, type: "offer", webrtc_id: this.id, config: this.config };
    const answer = await this.fetchJson("/webrtc/offer", body);
    if (this.closed) throw new NoPath("closed");
    await pc.setRemoteDescription({ sdp: answer.sdp, type: answer.type });
    const limit = setTimeout(() => this.onBroken(new NoPath("no_path")), CONNECT_LIMIT_MS);
    try {
      const event = await created;
      this.startHeartbeat(heartbeat_ms || 1000);
      return event;
    } finally {
      clearTimeout(limit);
      this.onCreated = this.onBroken = null;
    }
  }

  async fetchJson(path, body) {
    const options = body && {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
    };
    let response;
    try {
      response = await fetch(path, { ...options, signal: this.abort.signal, cache: "no-store" });
    } catch {
      throw new NoPath("unreachable");
    }
    const value = await response.json().catch(() => null);
    if (response.ok && value) return value;
    const error = value?.error ?? {};
    throw new Refused(response.status, error.code ?? "http", error.message ?? `The server answered ${response.status}.`);
  }

  addMedia(pc) {
    const { video, audio, heard } = this.media;
    // A video line without a camera: one that is connected later needs no new offer.
    this.videoSender = pc.addTransceiver(video ?? "video", { direction: "sendonly" }).sender;
    this.audioSender = pc.addTransceiver(heard && audio ? audio : "audio", { direction: audio ? "sendrecv" : "recvonly" }).sender;
    pc.addEventListener("track", ({ track, receiver }) => {
      if (track.kind !== "audio") return;
      this.playback = new PlaybackDelay(receiver);
      this.hooks.speaker(new MediaStream([track]));
    });
  }

  addChannel(pc) {
    const channel = (this.channel = pc.createDataChannel("events", { ordered: true }));
    channel.addEventListener("message", ({ data }) => this.receive(data));
    channel.addEventListener("close", () => this.broken("The server closed the session."));
  }

  receive(data) {
    const event = JSON.parse(data);
    if (event.type === "pong") {
      this.lastPong = performance.now();
      if (event.ts_ms != null) this.hooks.rtt(this.lastPong - event.ts_ms);
    } else if (event.type === "session.created" && this.onCreated) {
      this.onCreated(event);
    } else {
      this.hooks.event(event);
    }
  }

  watchState() {
    clearTimeout(this.disconnectTimer);
    const state = this.pc.connectionState;
    if (state === "failed") this.broken("The network path failed.");
    if (state === "disconnected") {
      this.disconnectTimer = setTimeout(() => this.broken("The network path went quiet."), DISCONNECTED_LIMIT_MS);
    }
  }

  startHeartbeat(period_ms) {
    this.lastPong = performance.now();
    this.ticker = new Worker(new URL("./ticker.js", import.meta.url));
    this.ticker.onmessage = () => {
      if (performance.now() - this.lastPong > PONG_LIMIT_MS) this.broken("The server does not answer.");
      else this.send({ type: "ping", ts_ms: performance.now() });
    };
    this.ticker.postMessage(period_ms);
    this.send({ type: "ping", ts_ms: performance.now() });
  }

  broken(reason) {
    if (this.closed) return;
    if (this.onBroken) this.onBroken(new NoPath("no_path"));
    else {
      this.close();
      this.hooks.lost(reason);
    }
  }

  /** Send a client event. @returns {boolean} whether the channel took it */
  send(event) {
    if (this.closed || this.channel?.readyState !== "open") return false;
    this.channel.send(JSON.stringify(event));
    return true;
  }

  /** What is being sent now, or null. @returns {Promise<?{fps: number, width: number, height: number}>} */
  async videoStats() {
    const report = await this.videoSender?.getStats().catch(() => null);
    for (const stats of report?.values() ?? []) {
      if (stats.type === "outbound-rtp" && stats.framesPerSecond && stats.frameWidth) {
        return { fps: stats.framesPerSecond, width: stats.frameWidth, height: stats.frameHeight };
      }
    }
    return null;
  }

  /** Send the microphone, or (null) nothing: a server that cannot listen gets no audio. */
  async hear(track) {
    await this.audioSender?.replaceTrack(track).catch(() => {}); // closed meanwhile: the next one gets it
  }

  /** Free everything, and tell the server, even while the page is going away. */
  close() {
    if (this.closed) return;
    this.closed = true;
    this.abort.abort();
    clearTimeout(this.disconnectTimer);
    this.ticker?.terminate();
    this.onBroken?.(new NoPath("closed"));
    if (this.pc) navigator.sendBeacon("/webrtc/close", this.id);
    this.pc?.close();
  }
}

function gathered(pc) {
  return new Promise((resolve) => {
    const check = () => pc.iceGatheringState === "complete" && resolve();
    pc.addEventListener("icegatheringstatechange", check);
    setTimeout(resolve, GATHER_LIMIT_MS);
    check();
  });
}
