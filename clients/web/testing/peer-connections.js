// A model of RTCPeerConnection for tests: descriptions, candidates, and when negotiation is needed. It has no media.

let sessions = 0;
export const made = [];

export class FakePeerConnection {
  signalingState = "stable";
  connectionState = "new";
  localDescription = null;
  remoteDescription = null;
  candidates = [];
  isRestarting = false;
  /** Whether a session that was agreed on has seen a rollback: Chromium shows no new picture after that. */
  isFrozen = false;
  #senders = [];
  #session = ++sessions;
  #generation = 0;
  #stableLocal = null;
  #stableRemote = null;
  #isNeeded = false;
  #operations = 0;
  #agreed = "";
  #offered = "";
  #created = null;
  #isAsked = false;

  constructor(configuration) {
    this.configuration = configuration;
    made.push(this);
  }

  getSenders() {
    return this.#senders;
  }

  getTransceivers() {
    return this.#senders.map((sender) => ({
      sender,
      receiver: { track: { kind: sender.received } },
      currentDirection: "inactive",
      set direction(_) {
        sender.need();
      },
    }));
  }

  addTrack(track, ...streams) {
    const sender = {
      track,
      received: track.kind,
      streams,
      need: () => this.#need(),
      replaceTrack: async (other) => void (sender.track = other),
    };
    this.#senders.push(sender);
    this.#need();
    return sender;
  }

  addTransceiver(kind, options) {
    this.#senders.push({ track: null, kind, received: kind, options, need: () => this.#need() });
    this.#need();
  }

  removeTrack(sender) {
    sender.track = null;
    this.#need();
  }

  setConfiguration(configuration) {
    this.configuration = configuration;
  }

  restartIce() {
    this.isRestarting = true;
    this.#generation += 1;
    this.#need();
  }

  async createOffer() {
    return this.#operate(async () => {
      this.#open();
      await null;
      this.#created = { type: "offer", sdp: this.#sdp("offer"), state: this.#state() };
      return this.#created;
    });
  }

  async setLocalDescription(description) {
    return this.#operate(() => this.#setLocal(description));
  }

  async setRemoteDescription(description) {
    return this.#operate(() => this.#setRemote(description));
  }

  /** Negotiation is asked for when nothing is under way. */
  async #operate(operation) {
    this.#operations += 1;
    try {
      return await operation();
    } finally {
      this.#operations -= 1;
      if (this.#isNeeded) this.#ask();
    }
  }

  async #setLocal(description) {
    this.#open();
    if (description?.type === "rollback") return this.#rollBack();
    const isAnswer = this.signalingState === "have-remote-offer";
    await null;
    this.#open();
    if (description && description !== this.#created) throw new Error("InvalidModificationError");
    const type = isAnswer ? "answer" : "offer";
    const { sdp, state } = description ?? { sdp: this.#sdp(type), state: this.#state() };
    this.localDescription = { type, sdp };
    if (isAnswer) this.#agree();
    else this.signalingState = "have-local-offer";
    if (!isAnswer) this.#offered = state;
    if (!isAnswer) this.#isNeeded = false;
    const [, usernameFragment] = /a=ice-ufrag:(.*)\r/.exec(sdp);
    setImmediate(() => this.onicecandidate?.({ candidate: { candidate: `candidate:${this.#session}`, sdpMid: "0", usernameFragment } }));
  }

  async #setRemote({ type, sdp }) {
    this.#open();
    await null;
    this.#open();
    if (type === "answer" && this.signalingState !== "have-local-offer") throw new Error("InvalidStateError");
    if (type === "offer" && this.signalingState === "have-local-offer") this.#rollBack();
    this.remoteDescription = { type, sdp };
    if (type === "offer") this.signalingState = "have-remote-offer";
    else this.#agree();
  }

  async addIceCandidate(candidate) {
    this.#open();
    if (!this.remoteDescription) throw new Error("InvalidStateError");
    const ufrag = candidate?.usernameFragment;
    if (ufrag && !this.remoteDescription.sdp.includes(`a=ice-ufrag:${ufrag}`)) throw new Error("OperationError");
    this.candidates.push(candidate ?? null);
  }

  close() {
    this.signalingState = "closed";
    this.connectionState = "closed";
  }

  /** An action of a test: the network finds a way, or loses it. */
  become(state) {
    this.connectionState = state;
    this.onconnectionstatechange?.();
  }

  get #ufrag() {
    return `u${this.#session}x${this.#generation}`;
  }

  #sdp(type) {
    const kinds = this.#senders.map(({ track, kind }) => track?.kind ?? kind ?? "none").join(",");
    const setup = type === "offer" ? "actpass" : "active";
    return `v=0\r\no=- ${this.#session} 2 IN IP4 127.0.0.1\r\na=ice-ufrag:${this.#ufrag}\r\na=setup:${setup}\r\na=kinds:${kinds}\r\n`;
  }

  #state() {
    return `${this.#generation} ${this.#senders.map(({ track, kind }) => track?.kind ?? kind)}`;
  }

  #agree() {
    this.signalingState = "stable";
    this.#stableLocal = this.localDescription;
    this.#stableRemote = this.remoteDescription;
    if (this.localDescription.type === "offer") this.isRestarting = false;
    if (this.localDescription.type === "offer") this.#agreed = this.#offered;
    else this.#agreed ||= this.#state();
    this.#isNeeded = this.#agreed !== this.#state();
    this.#isAsked = false;
  }

  #rollBack() {
    this.signalingState = "stable";
    this.localDescription = this.#stableLocal;
    this.remoteDescription = this.#stableRemote;
    if (this.remoteDescription) this.isFrozen = true;
    this.#isAsked = false;
    this.#need();
  }

  #need() {
    this.#isNeeded = true;
    this.#ask();
  }

  /**
   * An event is a task of its own: the promise of what led to it is settled before. Another one comes only when an offer
   * and its answer were applied, or taken back.
   */
  #ask() {
    setImmediate(() => {
      if (!this.#isNeeded || this.#isAsked || this.#operations > 0 || this.signalingState !== "stable") return;
      this.#isAsked = true;
      this.onnegotiationneeded?.();
    });
  }

  #open() {
    if (this.signalingState === "closed") throw new Error("InvalidStateError");
  }
}

/** A camera or a microphone. */
export const track = (kind, id = kind) => ({ kind, id });
export const stream = (...tracks) => ({ getTracks: () => tracks });
