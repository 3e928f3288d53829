import { CallMedia } from "../callmesh.js";
import { problemText, stopStream } from "./streams.js";

/** How the call goes on after a reload of the page, by its id. */
const storageKey = "callmesh-phone-lines";

/**
 * One call of this page with its media: microphone, camera, hold. It tells the model what it does.
 *
 * A line begins with `place`, `answer`, `pull` or `resume`, and ends with its call.
 */
export class Line {
  media = null;
  /** The media that this side sends. */
  stream = null;
  /**
   * The media that the other side sends, to be played: another stream for each track that comes. Chromium does not
   * begin to play a stream of sound that was empty when it was given to the element.
   */
  remote = null;
  /** The id of the call to which this one gave way, until the media go on with that one. */
  survivor = null;
  #streams;
  #store;
  #isMuted = false;
  #isHeld = false;
  #isOver = false;
  #givenUp = new AbortController();

  /** @param context `device`, `streams`, `store` and `rtc`, the configuration of peer connections */
  constructor(id, { device, streams, store, rtc }) {
    this.id = id;
    this.device = device;
    this.rtc = rtc;
    this.#streams = streams;
    this.#store = store;
  }

  get call() {
    return this.media?.call ?? this.device.find(this.id);
  }

  // The beginning.

  async place(callee, { video, ringTimeoutSeconds }) {
    await this.#begin({ video }, (options) =>
      CallMedia.place(this.device, callee, { ...options, id: this.id, video, ringTimeoutSeconds }),
    );
  }

  async answer({ video }) {
    await this.#begin({ video }, (options) => CallMedia.answer(this.call, options));
  }

  async pull(entry) {
    await this.#begin({}, (options) => CallMedia.pull(this.device, entry, options));
  }

  /** Takes the call up again after the page was loaded anew. */
  async resume() {
    const kept = readKept()[this.id] ?? {};
    await this.#begin({ video: kept.hasCamera }, (options) => CallMedia.resume(this.call, options));
    if (kept.isMuted) this.mute(true);
    if (kept.isHeld) this.hold(true);
  }

  async #begin({ video = false }, begin) {
    const { stream, problems } = await this.#streams.open({ video });
    this.stream = stream;
    // The user may have muted it meanwhile.
    this.#enable();
    for (const text of problems) this.#store.dispatch({ type: "notice", text });
    // The user may have given up while the browser asked for the microphone.
    if (this.#isOver) return stopStream(stream);
    try {
      const media = await begin({ stream, rtc: () => this.#configuration(), signal: this.#givenUp.signal });
      if (media) this.#follow(media);
      else this.close();
    } catch (error) {
      // The user may have given up while the browser made the first description.
      if (error === this.#givenUp.signal.reason) return;
      this.close();
      throw error;
    }
  }

  /** The configuration of peer connections from the page's server, with the TURN servers of the edge. */
  #configuration() {
    return { ...this.rtc, iceServers: [...(this.rtc?.iceServers ?? []), ...this.device.iceServers] };
  }

  #follow(media) {
    this.media = media;
    this.#tell({ hasCamera: trackOf(this, "video") !== null });
    // Where this side answers, the other side's tracks and the connection were there before the media.
    for (const track of media.remote?.getTracks() ?? []) this.#watch(track);
    if (media.connection) this.#tell({ mediaState: media.connection.connectionState });
    // A connection that has failed restarts. When it no longer does, the event `failed` follows.
    media.on("state", ({ state }) => this.#tell({ mediaState: state === "failed" ? "restarting" : state }));
    media.on("failed", () => this.#tell({ mediaState: "failed" }));
    media.on("track", ({ track }) => this.#watch(track));
    media.on("moved", () => this.#beginAnew());
    media.on("error", ({ error }) => this.#store.dispatch({ type: "notice", text: `Media: ${error.message}` }));
    media.on("call", ({ call }) => {
      this.#store.dispatch({ type: "replaced", from: this.id, to: call.id });
      this.id = call.id;
      this.survivor = null;
      this.#beginAnew();
    });
    if (this.#isOver) this.close();
  }

  /** The call goes on with another device, whose tracks are still to come. */
  #beginAnew() {
    this.remote = null;
    this.#tell({ mediaState: "new", hasRemoteVideo: false });
  }

  /** Plays a track of the other side. A picture is muted while nothing is sent. */
  #watch(track) {
    this.remote = new MediaStream(this.media.remote.getTracks());
    const update = () => {
      if (!this.remote?.getTracks().includes(track)) return;
      this.#tell(track.kind === "video" ? { hasRemoteVideo: !track.muted } : {});
    };
    for (const name of ["mute", "unmute", "ended"]) track.addEventListener(name, update);
    update();
  }

  // Actions of the user in the call.

  mute(isMuted) {
    this.#isMuted = isMuted;
    this.#enable();
    this.#tell({ isMuted });
  }

  async camera(isOn) {
    const former = trackOf(this, "video");
    if (isOn && !former) {
      try {
        await this.#send(await this.#streams.track("video"));
      } catch (error) {
        this.#store.dispatch({ type: "notice", text: problemText("video", error) });
      }
    } else if (!isOn && former) {
      this.media?.removeTrack("video");
      this.stream.removeTrack(former);
      former.stop();
    }
    this.#tell({ hasCamera: trackOf(this, "video") !== null });
  }

  /** Sends from the chosen microphone or camera instead of the present one. */
  async change(kind) {
    const former = trackOf(this, kind);
    if (kind === "video" && !former) return;
    await this.#send(await this.#streams.track(kind));
    if (former) this.stream.removeTrack(former);
    former?.stop();
  }

  async #send(track) {
    // The browser may still ask for the microphone.
    if (this.#isOver || !this.stream) return track.stop();
    this.stream.addTrack(track);
    this.#enable();
    await this.media?.setTrack(track);
  }

  /** Neither side hears the other one. The other side is told. */
  hold(isHeld) {
    if (this.#isHeld === isHeld) return;
    this.#isHeld = isHeld;
    this.#enable();
    this.#tell({ isHeld });
    this.call?.sendInformation(JSON.stringify({ hold: isHeld })).catch(() => {});
  }

  /** The other side has sent a text: `{"hold":true}` or `{"hold":false}`. */
  heard(body) {
    try {
      const { hold } = JSON.parse(body);
      if (typeof hold === "boolean") this.#tell({ isHeldByPeer: hold });
    } catch {
      // A text of another app.
    }
  }

  #enable() {
    for (const track of this.stream?.getTracks() ?? []) {
      track.enabled = !this.#isHeld && !(track.kind === "audio" && this.#isMuted);
    }
  }

  /** Ends the media, and gives microphone and camera back. */
  close() {
    this.#isOver = true;
    this.#givenUp.abort();
    this.media?.close();
    stopStream(this.stream);
    keep(this.id, null);
  }

  #tell(part) {
    this.#store.dispatch({ type: "callPart", id: this.id, ...part });
    if (this.#isOver) return;
    keep(this.id, { hasCamera: trackOf(this, "video") !== null, isMuted: this.#isMuted, isHeld: this.#isHeld });
  }
}

const trackOf = (line, kind) => line.stream?.getTracks().find((track) => track.kind === kind) ?? null;

function readKept() {
  try {
    return JSON.parse(sessionStorage.getItem(storageKey) ?? "{}");
  } catch {
    return {};
  }
}

function keep(id, what) {
  const { [id]: _, ...others } = readKept();
  sessionStorage.setItem(storageKey, JSON.stringify(what ? { ...others, [id]: what } : others));
}
