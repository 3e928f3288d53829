import { PeerMedia } from "./media-peer.js";

/**
 * The media of a call: an `RTCPeerConnection` whose descriptions and candidates travel with the call.
 *
 * It offers and answers, lets both sides change the session at any time, restarts ICE when the network changes, and
 * begins a new connection when the call moves to another device.
 */
export class CallMedia extends PeerMedia {
  #off = [];

  /** @param options `rtc`: the configuration of connections, or a function that gives it; `stream`: what this side sends */
  constructor(options = {}) {
    super(options);
  }

  /**
   * Calls a user. Further options are those of `device.place`.
   * @param options `signal`: gives up before the call is placed
   * @returns the media; `media.call` is the call
   */
  static place(device, callee, options = {}) {
    return new CallMedia(options).#start(async (media) => {
      const { rtc, stream, environment, RTCPeerConnection, signal, ...place } = options;
      const description = await media.#first(options);
      media.#bind(device.place(callee, { ...place, description }), device);
      return true;
    });
  }

  /** Answers a call. @returns null where this device has not won it */
  static answer(call, options = {}) {
    return new CallMedia(options).#start(async (media) => {
      // Candidates may go before the answer: the cluster keeps them for it.
      media.call = call;
      // A call of the app's server has nobody at its other side yet. `moved` will bring an offer.
      const isVacant = !call.description && !call.transferredBy && !call.caller?.device;
      const description = isVacant ? "" : await media.#first(options, call.description);
      if (!(await call.answer(description))) return false;
      media.#bind(call, null);
      return true;
    });
  }

  /** Takes a call over from another device of the user. @returns null where that came too late */
  static pull(device, ongoing, options = {}) {
    return new CallMedia(options).#start(async (media) => {
      const call = await device.pull(ongoing, await media.#first(options));
      if (!call) return false;
      media.#bind(call, null);
      return true;
    });
  }

  /** Gives an answered call new media, after the page was loaded anew. */
  static resume(call, options = {}) {
    return new CallMedia(options).#start(async (media) => {
      media.#bind(call, null);
      await media._negotiation.offer();
      return true;
    });
  }

  async #start(begin) {
    try {
      if (await begin(this)) return this;
    } catch (error) {
      this.close();
      throw error;
    }
    this.close();
    return null;
  }

  /** The first description. Nobody is to be called whose caller has given up while the browser made it. */
  async #first({ signal }, offer) {
    const description = await this._negotiation.first(offer);
    signal?.throwIfAborted();
    return description;
  }

  /** Ends the media, not the call. */
  close() {
    this._forgetNetwork();
    this.#release();
    this._retire();
  }

  #bind(call, device) {
    this.call = call;
    this.#off.push(
      call.on("answered", ({ description }) => {
        this.#open();
        if (description) this.#take({ kind: "description", body: description });
      }),
      call.on("moved", ({ description }) => this._enqueue(() => this.#moved(description))),
      call.on("ended", ({ reason, survivor }) => {
        if (reason === "glare" && survivor && device) this.#follow(device, survivor);
        else this.close();
      }),
    );
    this._sendKept();
    if (call.isOver) return this.close();
    if (call.state === "answered" || call.state === "connected") this.#open();
    call.onSignal((signal) => this.#take(signal));
  }

  #release() {
    for (const off of this.#off.splice(0)) off();
    this.call?.onSignal(null);
  }

  /** The call is answered. */
  #open() {
    const negotiation = this._negotiation;
    if (!negotiation || negotiation.isOpen) return;
    negotiation.isOpen = true;
    this._enqueue(() => negotiation.open());
    this._report();
  }

  /** The call goes on with another device: its description is an offer. */
  async #moved(description) {
    this._retire();
    this._begin(true);
    this.emit("moved", {});
    if (description) await this._negotiation.takeDescription(description);
    else await this._negotiation.offer();
  }

  /** This side's call gave way to one of the other side, and that one goes on. */
  #follow(device, id) {
    this.#release();
    const adopt = (call) => {
      if (call?.id !== id.toLowerCase()) return;
      if (!call.isOver && call.state !== "answered" && call.state !== "connected") return;
      this.#release();
      this._enqueue(() => this.#adopt(call));
    };
    this.#off.push(device.on("call", ({ call }) => adopt(call)));
    adopt(device.find(id));
  }

  async #adopt(call) {
    if (call.isOver) return this.close();
    // This side's own offer went with the other call. The candidates that came for this one wait in it.
    this._retire();
    this._begin(true);
    this.#bind(call, null);
    this.emit("call", { call });
    if (call.description) await this.#takeDescription(call.description);
    else await this._negotiation.offer();
  }

  #take({ kind, body }) {
    if (kind === "description") this._enqueue(() => this.#takeDescription(body));
    else if (kind === "candidate") this._enqueue(() => this._negotiation?.takeCandidate(body));
  }

  async #takeDescription(body) {
    if (this._negotiation?.isAnew(body)) {
      // The other side's page was loaded anew.
      this._retire();
      this._begin(true);
    }
    await this._negotiation?.takeDescription(body);
  }
}
