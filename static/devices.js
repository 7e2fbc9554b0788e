/** Camera and microphone: permission, choice, mute, level. */

const VIDEO = { width: { ideal: 640 }, height: { ideal: 480 }, frameRate: { ideal: 30, max: 30 } };
const AUDIO = { echoCancellation: true, noiseSuppression: true, autoGainControl: true };
const FLOOR_DB = -60; // shown as an empty meter; 0 dBFS is a full one

/** Neither can be used. `code` is `denied` or `no-camera`, as the page's states. */
export class NoDevices extends Error {
  constructor(code, cause) {
    super(code, { cause });
    this.code = code;
  }
}

export class Devices {
  /** @param {{changed: Function, cameraEnded: Function}} hooks */
  constructor(hooks) {
    this.hooks = hooks;
    this.video = null;
    this.audio = null;
    this.cameraId = null;
    navigator.mediaDevices?.addEventListener("devicechange", () => hooks.changed());
  }

  /**
   * Ask for both; be content with one.
   * @returns {Promise<{camera: ?string, microphone: ?string}>} why each is missing, null if it is there
   * @throws {NoDevices}
   */
  async open() {
    this.close();
    const video = this.videoConstraints();
    const both = await get({ video, audio: AUDIO });
    if (both.stream) {
      this.use(both.stream);
      return { camera: null, microphone: null };
    }
    const denied = both.error.name === "NotAllowedError";
    if (denied && !(await microphoneAloneIsDenied())) throw new NoDevices("denied", both.error);
    const camera = await get({ video });
    if (camera.stream) {
      this.use(camera.stream);
      return { camera: null, microphone: denied ? "denied" : "missing" };
    }
    if (camera.error.name === "NotAllowedError") throw new NoDevices("denied", camera.error);
    const microphone = await get({ audio: AUDIO });
    if (!microphone.stream) throw new NoDevices("no-camera", camera.error);
    this.use(microphone.stream);
    return { camera: camera.error.name === "NotReadableError" ? "busy" : "missing", microphone: null };
  }

  videoConstraints() {
    if (this.cameraId) return { ...VIDEO, deviceId: { exact: this.cameraId } };
    return { ...VIDEO, facingMode: { ideal: "environment" } };
  }

  use(stream) {
    const [audio] = stream.getAudioTracks();
    if (audio) {
      this.audio = audio;
      this.meter = makeMeter(audio);
    }
    const [video] = stream.getVideoTracks();
    if (video) this.useVideo(video);
  }

  useVideo(track) {
    this.video?.stop();
    this.video = track;
    this.cameraId = track.getSettings().deviceId ?? null;
    track.addEventListener("ended", () => this.video === track && this.hooks.cameraEnded());
  }

  /** Labels are empty until permission was given. @returns {Promise<{id: string, label: string}[]>} */
  async cameras() {
    const devices = (await navigator.mediaDevices?.enumerateDevices()) ?? [];
    return devices
      .filter((device) => device.kind === "videoinput")
      .map((device, index) => ({ id: device.deviceId, label: device.label || `Camera ${index + 1}` }));
  }

  /** Change the camera. Phones open one at a time, so the old one is closed first. */
  async select(cameraId) {
    const before = this.cameraId;
    this.video?.stop();
    this.cameraId = cameraId;
    let result = await get({ video: this.videoConstraints() });
    const failed = result.error;
    if (failed) {
      this.cameraId = before;
      result = await get({ video: this.videoConstraints() });
    }
    if (result.stream) this.useVideo(result.stream.getVideoTracks()[0]);
    else this.video = null;
    if (failed) throw failed;
    return this.video;
  }

  /** Loudness of the microphone now, 0 to 1; 0 while muted. */
  level() {
    if (!this.meter || !this.audio?.enabled) return 0;
    const { analyser, samples } = this.meter;
    analyser.getFloatTimeDomainData(samples);
    let sum = 0;
    for (const sample of samples) sum += sample * sample;
    const db = 10 * Math.log10(sum / samples.length + 1e-12);
    return Math.min(1, Math.max(0, 1 - db / FLOOR_DB));
  }

  close() {
    this.video?.stop();
    this.audio?.stop();
    this.meter?.context.close();
    this.video = this.audio = this.meter = null;
  }
}

async function get(constraints) {
  try {
    return { stream: await navigator.mediaDevices.getUserMedia(constraints) };
  } catch (error) {
    return { error };
  }
}

async function microphoneAloneIsDenied() {
  const state = (name) => navigator.permissions.query({ name }).then((status) => status.state, () => "prompt");
  return (await state("microphone")) === "denied" && (await state("camera")) !== "denied";
}

function makeMeter(track) {
  const context = new AudioContext();
  const analyser = context.createAnalyser();
  analyser.fftSize = 1024;
  context.createMediaStreamSource(new MediaStream([track])).connect(analyser);
  return { context, analyser, samples: new Float32Array(analyser.fftSize) };
}
