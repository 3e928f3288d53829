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
  #isTakenBack = false;
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

  /** Offers in an answered call. */
  async offer() {
    const { connection } = this;
    if (this.#isClosed || connection.signalingState !== "stable" || this.#isMakingOffer) return;
    this.#wantsOffer = false;
    this.#isMakingOffer = true;
    try {
      await connection.setLocalDescription();
    } finally {
      this.#isMakingOffer = false;
    }
    if (this.#isClosed || connection.signalingState !== "have-local-offer") return;
    this.#port.sendDescription(written(connection.localDescription)).catch((error) => this.#takeBack(error));
  }

  /** The session is to change. It waits while the first exchange is not complete. */
  #negotiate() {
    if (this.#isTakenBack) {
      // The browser says that the offer that was taken back is still needed. It would fail again.
      this.#isTakenBack = false;
      return;
    }
    this.#wantsOffer = true;
    if (!this.isOpen || this.#isClosed || !this.connection.remoteDescription) return;
    this.offer().catch((error) => this.#port.failed(error));
  }

  /** The offer did not reach the other side: the session stays as it was until something else changes. */
  async #takeBack(error) {
    this.#port.failed(error);
    if (this.#isClosed || this.connection.signalingState !== "have-local-offer") return;
    if (!this.connection.remoteDescription) return;
    this.#isTakenBack = true;
    await this.connection.setLocalDescription({ type: "rollback" }).catch(() => {});
  }

  /** Whether an offer of the other side is one of another connection, for which this one is of no use. */
  isAnew(body) {
    const { remoteDescription, signalingState } = this.connection;
    const description = read(body, signalingState);
    return description.type === "offer" && isOfAnotherConnection(description, remoteDescription);
  }

  async takeDescription(body) {
    if (this.#isClosed) return;
    const { connection } = this;
    const description = read(body, connection.signalingState);
    const isUsed = description.type === "offer" ? this.#takesOffer() : connection.signalingState === "have-local-offer";
    // Otherwise it is an offer that this side does not give way to, or an answer to one of a former connection.
    if (!isUsed) return;
    this.#isSettingAnswer = description.type === "answer";
    try {
      await connection.setRemoteDescription(description);
    } finally {
      this.#isSettingAnswer = false;
    }
    if (description.type === "offer") await this.#answer();
    await this.#useEarly();
    if (this.#wantsOffer) this.#negotiate();
  }

  /**
   * Where both sides offer at once the callee gives way. So does a caller whose first offer nobody has answered: the
   * callee may have lost it.
   */
  #takesOffer() {
    const { signalingState, remoteDescription } = this.connection;
    const isReady = !this.#isMakingOffer && (signalingState === "stable" || this.#isSettingAnswer);
    return isReady || this.#port.isCallee() || !remoteDescription;
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
