import { Emitter } from "./emitter.js";
import { CallmeshError } from "./errors.js";
import { Negotiation } from "./media-negotiation.js";
import { watchNetwork } from "./page.js";

const candidatesMax = 256;
/** ICE mends a short gap by itself. After this it is started anew. */
const disconnectedMs = 4000;
/** Restarts in a row without success. Then the connection has failed. */
const restartsMax = 5;

/**
 * The part of `CallMedia` that does not depend on what its call does: the tracks, the present connection, and the
 * reaction when that breaks. Members that begin with `_` are for `CallMedia`.
 */
export class PeerMedia extends Emitter {
  /** The call. Where two calls cross it may become the other one. */
  call = null;
  /** All tracks of the other side. */
  remote = null;

  _negotiation = null;
  _work = Promise.resolve();
  #options;
  #tracks = new Map();
  #unsent = [];
  #isReported = false;
  #restarts = 0;
  #timer = null;
  #offNetwork;

  constructor(options) {
    super();
    this.#options = options;
    for (const track of options.stream?.getTracks() ?? []) this.#tracks.set(track.kind, track);
    this.#offNetwork = watchNetwork(() => this.#networkChanged(), options.environment);
    this._begin(false);
  }

  /** The present `RTCPeerConnection`; null after the end. After a move it is another one. */
  get connection() {
    return this._negotiation?.connection ?? null;
  }

  /** Sends this track, in place of the one of its kind. */
  async setTrack(track) {
    const sender = this.#sender(track.kind);
    this.#tracks.set(track.kind, track);
    if (sender) return sender.replaceTrack(track);
    await this.#add(track);
    this._negotiation?.changed();
  }

  /**
   * `addTrack` takes only a part of the session that was never used to send. Each time the camera went on again it would
   * make another part, and descriptions would grow to their limit.
   */
  async #add(track) {
    const isUnused = ({ sender, receiver, currentDirection }) =>
      receiver.track?.kind === track.kind && !sender.track && currentDirection !== "stopped";
    const unused = this.connection?.getTransceivers().find(isUnused);
    if (!unused) return this.connection?.addTrack(track, ...this.#streams());
    unused.direction = "sendrecv";
    await unused.sender.replaceTrack(track);
  }

  /** Sends no `audio` or `video` any more: the camera goes off. */
  removeTrack(kind) {
    const sender = this.#sender(kind);
    this.#tracks.delete(kind);
    if (!sender) return;
    this.connection.removeTrack(sender);
    this._negotiation.changed();
  }

  /** Looks for another way to the other side: the present one has broken, or the network has changed. */
  restartIce() {
    if (!this._negotiation?.isOpen) return;
    // A network that changes under a good connection is no failure.
    this.#restarts = this.connection.connectionState === "connected" ? 1 : this.#restarts + 1;
    if (this.#restarts > restartsMax) this.emit("failed", {});
    else this.#restart();
  }

  /** Another network may reach what the former one did not. */
  #networkChanged() {
    this.#restarts = 0;
    this.restartIce();
  }

  #restart() {
    // The credentials for TURN servers that the connection began with may have expired.
    if (typeof this.#options.rtc === "function") this.connection.setConfiguration(this.#configuration());
    this.connection.restartIce();
    this._negotiation.changed();
  }

  #configuration() {
    const { rtc } = this.#options;
    return typeof rtc === "function" ? rtc() : rtc;
  }

  #streams = () => (this.#options.stream ? [this.#options.stream] : []);

  #sender(kind) {
    const track = this.#tracks.get(kind);
    return track && this.connection?.getSenders().find((sender) => sender.track === track);
  }

  /** Begins a connection with the tracks of this side. */
  _begin(isOpen) {
    const Connection = this.#options.RTCPeerConnection ?? globalThis.RTCPeerConnection;
    const connection = new Connection(this.#configuration());
    this._negotiation = new Negotiation(connection, {
      isCallee: () => this.call?.role === "callee",
      // One that is too long is refused at once: that counts like any other failure.
      sendDescription: async (text) => this.call.sendDescription(text),
      sendCandidate: (text) => this._send(text),
      failed: (error) => this._failed(error),
    });
    this._negotiation.isOpen = isOpen;
    this.#isReported = false;
    this.#restarts = 0;
    this.remote = globalThis.MediaStream ? new globalThis.MediaStream() : null;
    for (const track of this.#tracks.values()) connection.addTrack(track, ...this.#streams());
    // Without a track of its own this side still wants to hear the other one.
    if (this.#tracks.size === 0) connection.addTransceiver("audio", { direction: "recvonly" });
    connection.ontrack = ({ track, streams }) => {
      this.remote?.addTrack(track);
      this.emit("track", { track, streams });
    };
    connection.onconnectionstatechange = () => {
      if (this.connection === connection) this.#changed(connection.connectionState);
    };
  }

  /** Ends the present connection. */
  _retire() {
    this.#clearTimer();
    const former = this._negotiation;
    this._negotiation = null;
    former?.close();
  }

  _forgetNetwork() {
    this.#offNetwork();
  }

  #changed(state) {
    this.#clearTimer();
    this.emit("state", { state });
    if (state === "connected") {
      this.#restarts = 0;
      this._report();
    } else if (state === "failed") {
      this.restartIce();
    } else if (state === "disconnected") {
      const setTimer = this.#options.environment?.setTimer ?? setTimeout;
      this.#timer = setTimer(() => this.restartIce(), disconnectedMs);
    }
  }

  #clearTimer() {
    const clearTimer = this.#options.environment?.clearTimer ?? clearTimeout;
    if (this.#timer !== null) clearTimer(this.#timer);
    this.#timer = null;
  }

  /** Tells the cluster that media flow, once for each connection. */
  _report() {
    if (this.#isReported || !this._negotiation?.isOpen || this.connection.connectionState !== "connected") return;
    this.#isReported = true;
    this.call.connected().catch((error) => this._failed(error));
  }

  /** Sends a candidate, or keeps it until there is a call. */
  _send(text) {
    if (!this.call) {
      if (this.#unsent.length < candidatesMax) this.#unsent.push(text);
      return;
    }
    // One that is lost or refused is one way less, and no reason to end the call.
    this.call.sendCandidate(text).catch(() => {});
  }

  _sendKept() {
    for (const text of this.#unsent.splice(0)) this._send(text);
  }

  /** Takes the steps one after the other, as they come. */
  _enqueue(step) {
    this._work = this._work.then(() => (this._negotiation ? step() : undefined)).catch((error) => this._failed(error));
  }

  _failed(cause) {
    if (!this._negotiation) return;
    const error = cause instanceof CallmeshError ? cause : new CallmeshError(904, String(cause?.message ?? cause));
    this.emit("error", { error });
  }
}
