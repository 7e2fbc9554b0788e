/** How late received audio is heard, from the browser's own counters. */

export class PlaybackDelay {
  /** @param {RTCRtpReceiver} receiver of the audio */
  constructor(receiver) {
    this.receiver = receiver;
    this.before = {};
    // As little ahead as the network allows: what is buffered is still heard after an interruption.
    if ("jitterBufferTarget" in receiver) receiver.jitterBufferTarget = 0;
    else if ("playoutDelayHint" in receiver) receiver.playoutDelayHint = 0;
  }

  /**
   * Mean delay since the last call: the way here, the jitter buffer, the sound card.
   * @param {?number} rtt_ms
   * @returns {Promise<?number>} ms, null while nothing was played
   */
  async read(rtt_ms) {
    const report = await this.receiver.getStats().catch(() => null);
    let buffer_s = null;
    let card_s = null;
    for (const stats of report?.values() ?? []) {
      if (stats.type === "inbound-rtp") buffer_s = this.mean("buffer", stats.jitterBufferDelay, stats.jitterBufferEmittedCount);
      if (stats.type === "media-playout") card_s = this.mean("card", stats.totalPlayoutDelay, stats.totalSamplesCount);
    }
    if (buffer_s == null) return null;
    return 1000 * (buffer_s + (card_s ?? 0)) + (rtt_ms ?? 0) / 2;
  }

  /** Both counters grow for ever: the mean of what was added since the last call. */
  mean(name, sum = 0, count = 0) {
    const before = this.before[name] ?? { sum: 0, count: 0 };
    this.before[name] = { sum, count };
    return count > before.count ? (sum - before.sum) / (count - before.count) : null;
  }
}
