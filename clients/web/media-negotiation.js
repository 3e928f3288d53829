import { isOfAnotherConnection, read, readCandidate, written, writtenCandidate } from "./media-sdp.js";

const candidatesMax = 256;

/**
 * The descriptions and candidates of one `RTCPeerConnection`: "perfect negotiation", in which both sides may change the
 * session at any time, and one of them gives way where both do at once.
 */
export class Negotiation {
  /** Whether the call is answered. Until then nothing of the other side is used: media must not connect before. */
  isOpen = false;
  #port;
  #early = [];
  #isMakingOffer = false;
  #isSettingAnswer = false;
  #wantsOffer = false;
  /** The offer that the other side was sent in a session that is there already. It is applied with its answer. */
  #offered = null;
  /** An offer did not reach the other side. The browser asks for none again before an exchange is complete. */
  #isOwed = false;
  #isClosed = false;

  /**
   * @param connection the connection
   * @param port `isCallee()`, `sendDescription(text)` (a promise), `sendCandidate(text)` and `failed(error)`
   */
  constructor(connection, port) {
    this.connection = connection;
    this.#port = port;
    connection.onicecandidate = ({ candidate }) => {
      if (!this.#isClosed) port.sendCandidate(writtenCandidate(candidate));
    };
    connection.onnegotiationneeded = () => this.#negotiate();
  }

  close() {
    this.#isClosed = true;
    this.connection.close();
  }

  /** `isOpen` was set: uses what came early, and offers what was changed meanwhile. */
  async open() {
    await this.#useEarly();
    if (this.#wantsOffer) this.#negotiate();
  }

  /** The first description of this side: an answer to `offer`, or an offer. */
  async first(offer = "") {
    if (offer) await this.connection.setRemoteDescription(read(offer, "stable"));
    await this.connection.setLocalDescription();
    // It has all that was needed until now. What it could not have, the browser asks for anew.
    this.#wantsOffer = false;
    return written(this.connection.localDescription);
  }

  /** As the browser's `signalingState`, with an offer that it does not know yet. */
  get #state() {
    return this.#offered ? "have-local-offer" : this.connection.signalingState;
  }

  /**
   * Offers in an answered call.
   *
   * A side that gives way has nothing to roll back: after a rollback Chromium receives nothing more on what was agreed
   * before, and freezes the picture even when the session is agreed on anew.
   */
  async offer() {
    const { connection } = this;
    if (this.#isClosed || this.#state !== "stable" || this.#isMakingOffer) return;
    this.#wantsOffer = false;
    this.#isOwed = false;
    this.#isMakingOffer = true;
    let offered = null;
    try {
      if (connection.remoteDescription) offered = await connection.createOffer();
      else await connection.setLocalDescription();
      // It gave way meanwhile.
      if (!this.#isMakingOffer) return;
      this.#offered = offered;
    } finally {
      this.#isMakingOffer = false;
    }
    if (this.#isClosed || this.#state !== "have-local-offer") return;
    this.#port.sendDescription(written(offered ?? connection.localDescription)).catch((error) => {
      // It did not reach the other side: the session stays as it was until something else changes.
      if (this.#offered === offered) this.#offered = null;
      this.#isOwed = true;
      this.#port.failed(error);
    });
  }

  /** This side has changed the session. The browser says so itself, except while an offer is owed. */
  changed() {
    if (this.#isOwed) this.#negotiate();
  }

  /** The session is to change. It waits while the first exchange is not complete. */
  #negotiate() {
    this.#wantsOffer = true;
    if (!this.isOpen || this.#isClosed || !this.connection.remoteDescription) return;
    this.offer().catch((error) => this.#port.failed(error));
  }

  /** Whether an offer of the other side is one of another connection, for which this one is of no use. */
  isAnew(body) {
    const description = read(body, this.#state);
    return description.type === "offer" && isOfAnotherConnection(description, this.connection.remoteDescription);
  }

  async takeDescription(body) {
    if (this.#isClosed) return;
    const { connection } = this;
    const description = read(body, this.#state);
    const isAnswer = description.type === "answer";
    const isUsed = isAnswer ? this.#state === "have-local-offer" : this.#takesOffer();
    // Otherwise it is an offer that this side does not give way to, or an answer to one of a former connection.
    if (!isUsed) return;
    const offered = this.#offered;
    this.#offered = null;
    this.#isMakingOffer = false;
    this.#isSettingAnswer = isAnswer;
    try {
      if (isAnswer && offered) await connection.setLocalDescription(offered);
      await connection.setRemoteDescription(description);
    } finally {
      this.#isSettingAnswer = false;
    }
    if (!isAnswer) await this.#answer();
    await this.#useEarly();
    if (this.#wantsOffer) this.#negotiate();
  }

  /**
   * Where both sides offer at once the callee gives way. So does a caller whose first offer nobody has answered: the
   * callee may have lost it.
   */
  #takesOffer() {
    const isReady = !this.#isMakingOffer && (this.#state === "stable" || this.#isSettingAnswer);
    return isReady || this.#port.isCallee() || !this.connection.remoteDescription;
  }

  async #answer() {
    await this.connection.setLocalDescription();
    if (this.#isClosed) return;
    this.#port
      .sendDescription(written(this.connection.localDescription))
      .catch((error) => this.#port.failed(error));
  }

  async takeCandidate(body) {
    if (this.#isClosed) return;
    if (!this.isOpen || !this.connection.remoteDescription) {
      // Policy at the limit: one more is one way less.
      if (this.#early.length < candidatesMax) this.#early.push(body);
      return;
    }
    const candidate = readCandidate(body);
    if (candidate === undefined) return;
    try {
      await this.connection.addIceCandidate(candidate ?? undefined);
    } catch {
      // It belongs to a connection or an offer that is no more.
    }
  }

  async #useEarly() {
    if (!this.isOpen || !this.connection.remoteDescription) return;
    for (const body of this.#early.splice(0)) await this.takeCandidate(body);
  }
}
