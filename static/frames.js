/** What the frame filter decided: thumbnails of kept frames, rates, and the 30-second strip. */

const THUMBNAILS = 200; // kept frames remembered
const WINDOW_S = 30;
const BUCKET_MS = 250;
const BUCKETS = (WINDOW_S * 1000) / BUCKET_MS;
const RATE_WINDOW_MS = 5000;

export class FrameLog {
  constructor() {
    this.reset();
  }

  /** A new session: frame ids and times start again. Thumbnails that turns already show stay there. */
  reset() {
    this.kept = new Map(); // frame id → {index, time_s, src, dropped: {reason: count}, peak}
    this.index = 0;
    this.since = newGap();
    this.recent = []; // [arrival ms, kept] of the last seconds
    this.buckets = new Map(); // bucket number → {score, kept}
    this.totals = null;
    this.firstAt = null; // ms, of the first decision
  }

  /** @param {object} event `video.frame.decision` */
  add(event) {
    const now = performance.now();
    this.firstAt ??= now;
    this.totals = { kept: event.kept_total, dropped: event.dropped_total };
    this.recent.push([now, event.kept]);
    const number = Math.floor(now / BUCKET_MS);
    const bucket = this.buckets.get(number) ?? { score: 0, kept: false };
    bucket.score = Math.max(bucket.score, event.score ?? 0);
    bucket.kept ||= event.kept;
    this.buckets.set(number, bucket);
    if (event.kept) this.keep(event);
    else {
      this.since.dropped[event.reason] = (this.since.dropped[event.reason] ?? 0) + 1;
      this.since.peak = Math.max(this.since.peak, event.score ?? 0);
    }
  }

  keep(event) {
    const src = event.thumbnail ? `data:image/jpeg;base64,${event.thumbnail}` : null;
    const key = event.frame_id ?? `#${this.index}`;
    this.kept.set(key, { index: this.index++, time_s: event.time_s, src, reason: event.reason, ...this.since });
    this.since = newGap();
    if (this.kept.size > THUMBNAILS) this.kept.delete(this.kept.keys().next().value);
  }

  /** The kept frame with this id, or undefined. */
  frame(id) {
    return this.kept.get(id);
  }

  /**
   * What lies between two kept frames: how many were dropped and mostly why, and kept frames left out.
   * @returns {?{dropped: number, reason: string, peak: number, skipped: number}} null if unknown or nothing
   */
  gap(fromId, toId) {
    const from = this.kept.get(fromId);
    const to = this.kept.get(toId);
    if (!from || !to) return null;
    const reasons = {};
    let peak = 0;
    for (const frame of this.kept.values()) {
      if (frame.index <= from.index || frame.index > to.index) continue;
      peak = Math.max(peak, frame.peak);
      for (const [reason, count] of Object.entries(frame.dropped)) reasons[reason] = (reasons[reason] ?? 0) + count;
    }
    const dropped = Object.values(reasons).reduce((sum, count) => sum + count, 0);
    const skipped = Math.max(0, to.index - from.index - 1);
    if (!dropped && !skipped) return null;
    const [reason = ""] = Object.keys(reasons).sort((a, b) => reasons[b] - reasons[a]);
    return { dropped, reason, peak, skipped };
  }

  /** Frames a second over the last seconds, or null before the first decision. */
  rates() {
    if (this.firstAt == null) return null;
    const now = performance.now();
    while (this.recent.length && this.recent[0][0] < now - RATE_WINDOW_MS) this.recent.shift();
    const seconds = Math.min(RATE_WINDOW_MS, now - this.firstAt) / 1000;
    if (seconds < 1) return null;
    const kept = this.recent.filter(([, wasKept]) => wasKept).length;
    return { kept: kept / seconds, dropped: (this.recent.length - kept) / seconds };
  }

  /** Draw the strip: one bar a quarter second, the newest at the right. */
  draw(canvas) {
    const scale = window.devicePixelRatio || 1;
    const width = Math.round(canvas.clientWidth * scale);
    const height = Math.round(canvas.clientHeight * scale);
    if (!width || !height) return;
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const style = getComputedStyle(canvas);
    const colours = { kept: style.getPropertyValue("--accent"), dropped: style.getPropertyValue("--bar") };
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, width, height);
    const last = Math.floor(performance.now() / BUCKET_MS);
    const step = width / BUCKETS;
    for (const [number, { score, kept }] of this.buckets) {
      const age = last - number;
      if (age >= BUCKETS) {
        this.buckets.delete(number);
        continue;
      }
      // A square root: a change of 1 % can still be told from none.
      const tall = Math.max(2 * scale, Math.min(1, score) * height, kept ? 5 * scale : 0);
      context.fillStyle = kept ? colours.kept : colours.dropped;
      const x = width - (age + 1) * step;
      context.fillRect(x, height - tall, Math.max(1, step - scale), tall);
    }
  }
}

function newGap() {
  return { dropped: {}, peak: 0 };
}
