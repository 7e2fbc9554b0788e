/** Keeps one connection alive: opens it, and opens a new one when it is lost or refused as full. */

import { Connection, Refused } from "./connection.js";

const BACKOFF_S = [0, 1, 2, 4, 8]; // the last one repeats
const FULL_RETRY_S = 10;

export class Link {
  /**
   * @param {{media: Function, config: Function, state: Function, created: Function, event: Function,
   *   speaker: Function, rtt: Function}} hooks
   *   `state(name, detail)` with connecting, live, lost, full or failed; `media()` and `config()` are
   *   read at every attempt.
   */
  constructor(hooks) {
    this.hooks = hooks;
    this.connection = null;
    this.attempt = 0; // since it was last live
    this.wasLive = false;
    window.addEventListener("online", () => this.countdown && this.retryNow());
  }

  /** Start a first attempt; the page is in `connecting`. */
  start() {
    this.attempt = 0;
    this.wasLive = false;
    this.connect();
  }

  async connect() {
    clearInterval(this.countdown);
    this.countdown = null;
    const connection = new Connection(this.hooks.media(), this.hooks.config(), {
      event: (event) => this.hooks.event(event),
      speaker: (stream) => this.hooks.speaker(stream),
      rtt: (ms) => this.hooks.rtt(ms),
      lost: (reason) => this.lost(reason),
    });
    this.connection = connection;
    try {
      const created = await connection.open();
      const back = this.wasLive;
      this.wasLive = true;
      this.attempt = 0;
      this.hooks.created(created, back);
    } catch (error) {
      const ours = this.connection === connection;
      connection.close();
      if (ours) this.failed(error);
    }
  }

  failed(error) {
    if (error.code === "server_full") {
      this.wait("full", FULL_RETRY_S, error.message);
    } else if (this.wasLive && !(error instanceof Refused && error.status < 500)) {
      this.lost(error.message);
    } else {
      this.hooks.state("failed", { code: error.code, message: error.message });
    }
  }

  lost(message) {
    const delay_s = BACKOFF_S[Math.min(this.attempt++, BACKOFF_S.length - 1)];
    this.wait("lost", delay_s, message);
  }

  /** Show `state` with a countdown, then try again. */
  wait(state, delay_s, message) {
    let left_s = delay_s;
    this.waiting = state;
    this.hooks.state(state, { retry_s: left_s, message });
    if (left_s === 0) {
      this.connect();
      return;
    }
    this.countdown = setInterval(() => {
      left_s -= 1;
      if (left_s <= 0) this.retryNow();
      else this.hooks.state(state, { retry_s: left_s, message });
    }, 1000);
  }

  /** Do not wait for the countdown. */
  retryNow() {
    if (!this.countdown) return;
    if (this.waiting === "full") this.hooks.state("connecting", {});
    else this.hooks.state("lost", { retry_s: 0 });
    this.connect();
  }

  send(event) {
    return this.connection?.send(event) ?? false;
  }

  async replaceVideo(track) {
    await this.connection?.videoSender?.replaceTrack(track).catch(() => {}); // closed meanwhile: the next one gets it
  }

  hear(track) {
    return this.connection?.hear(track);
  }

  /** How late received audio is heard, ms. @returns {Promise<?number>} */
  playbackDelay(rtt_ms) {
    return this.connection?.playback?.read(rtt_ms) ?? Promise.resolve(null);
  }

  videoStats() {
    return this.connection?.videoStats() ?? Promise.resolve(null);
  }

  close() {
    clearInterval(this.countdown);
    this.countdown = null;
    const connection = this.connection;
    this.connection = null; // before close: what it reports no longer concerns us
    connection?.close();
  }
}
