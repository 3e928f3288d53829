import { CallmeshError } from "./errors.js";
import { Emitter } from "./emitter.js";
import { checkBytes } from "./settings.js";
import { isOver, isTalking } from "./call-view.js";

/** The most signals that wait until `onSignal` is called. Policy at the limit: the oldest candidate is dropped. */
const backlogMax = 256;

/**
 * A call of this device. Its state and its events come from the cluster; its methods are the commands of the protocol.
 * A method returns a promise that rejects with a `CallmeshError`.
 */
export class Call extends Emitter {
  #device;
  #view;
  #backlog = [];
  #takeSignal = null;

  constructor(device, view) {
    super();
    this.#device = device;
    this.#view = view;
    /** The calls' id and callee, by which the cluster knows it. */
    this.address = Object.freeze({ callee: view.callee, id: view.id });
    /** For a call that this device places: resolves when the cluster has accepted it. */
    this.placed = null;
    /** The unanswered call of this device to the same user: one of the two gives way, so do not ring. */
    this.crosses = null;
    /** The user has answered in a notification: answer at once. */
    this.isWanted = false;
  }

  get id() {
    return this.#view.id;
  }
  get callee() {
    return this.#view.callee;
  }
  /** `placing`, `placed`, `waking`, `ringing`, `answering`, `answered`, `connected`, `ended` or `lost`. */
  get state() {
    return this.#view.state;
  }
  /** Which side this device has: `caller` or `callee`. */
  get role() {
    return this.#view.role;
  }
  get isOver() {
    return isOver(this.#view);
  }
  /** Who is at the other side: `{user, device, deviceName, name}`; null: not known. */
  get peer() {
    return this.#view.peer;
  }
  /** How it ended: `{reason, by, missed, survivor, unreachable, isLocal, error}`; null: it has not. */
  get end() {
    return this.#view.end;
  }
  /** When it stops ringing, by the cluster's clock. */
  get deadlineMs() {
    return this.#view.deadlineMs;
  }

  // The content of an invite.
  get caller() {
    return this.#view.invite?.caller ?? null;
  }
  get description() {
    return this.#view.invite?.description ?? "";
  }
  get video() {
    return !!this.#view.invite?.video;
  }
  get headers() {
    return this.#view.invite?.headers ?? [];
  }
  get pushData() {
    return this.#view.invite?.pushData ?? "";
  }
  get isSecondCall() {
    return !!this.#view.invite?.secondCall;
  }
  get divertedBy() {
    return this.#view.invite?.divertedBy ?? null;
  }
  get transferredBy() {
    return this.#view.invite?.transferredBy ?? null;
  }
  /** The app's server placed the call; `caller` has answered it, and waits for this user. */
  get isSecondSide() {
    return !!this.#view.invite?.secondSide;
  }
  /** The id of this device's own call, which gave way to this one: the device has this one without an answer. */
  get merged() {
    return this.#view.invite?.merged?.toLowerCase() ?? null;
  }
  /** The address of the call in which this device was asked: answer at once, without ringing. */
  get consulted() {
    return this.#view.invite?.consulted ?? null;
  }

  // A callee's commands.

  /** Says that this device alerts its user. */
  alerting() {
    return this.#send("alerting");
  }

  /** Answers. @returns whether this device has the call. Connect media only then. */
  async answer(description = "") {
    checkBytes(description, 65_536, 408, "The description");
    if (this.#view.state !== "ringing") throw wrongState(this);
    const reply = await this.#send("answer", { description });
    return !!reply.answer?.won;
  }

  /** Declines for the user: all of the user's devices stop. */
  decline() {
    return this.#send("decline");
  }

  /** Declines on this device alone: the others ring on. */
  declineHere() {
    return this.#send("decline", { scope: "here" });
  }

  /** This device cannot take the call. The user's others ring on. */
  busy() {
    return this.#send("busy");
  }

  // A caller's commands.

  /** Gives up before an answer. The state may say that an answer was faster: `answered`. */
  cancel() {
    return this.#send("cancel");
  }

  /** Takes the call up again after a restart of the page. */
  resume() {
    return this.#send("resume");
  }

  // Either side's commands.

  /** Says that media flow. Without it an answered call ends as `failed`. */
  connected() {
    return this.#send("connected");
  }

  hangUp() {
    return this.#send("hangUp");
  }

  /**
   * Ends the call in whatever state it is: cancels, declines or hangs up. Where it gave way to a crossing call, that one
   * ends.
   */
  async finish() {
    if (!this.isOver) await this.#leave();
    const { reason, survivor } = this.end ?? {};
    if (this.role === "caller" && reason === "glare" && survivor) await this.#device.finishSurvivor(survivor);
  }

  async #leave() {
    if (isTalking(this.#view)) await this.hangUp();
    else if (this.role === "callee") await this.#refuse();
    else if ((await this.cancel()).call?.phase === "answered") await this.hangUp();
  }

  /** Declines. Where this device's answer was faster, it has the call: hangs up. */
  async #refuse() {
    try {
      await this.decline();
    } catch (error) {
      if (error.code !== 404 || this.isOver) throw error;
      await this.hangUp();
    }
  }

  sendDescription(body) {
    return this.#send("description", { body: checkBytes(body, 65_536, 408, "The description") });
  }

  sendCandidate(body) {
    return this.#send("candidate", { body: checkBytes(body, 16_384, 408, "The candidate") });
  }

  /** A text of the apps' own to the other side of an answered call: a hold, a hand that is raised. */
  sendInformation(body) {
    return this.#send("information", { body: checkBytes(body, 4096, 413, "The information") });
  }

  /**
   * Hands this side over to another user. This device has the call until somebody answers.
   * @param options `device`: only this one rings; `consulted`: the answered call with that device
   */
  transfer(to, { device, consulted } = {}) {
    checkBytes(to, 128, 410, "The user's id");
    const body = { to };
    if (device) body.device = device;
    if (consulted) body.consulted = consulted.address ?? consulted;
    return this.#send("transfer", body);
  }

  cancelTransfer() {
    return this.#send("cancelTransfer");
  }

  /** Asks for the call's state, as this device may see it. */
  query() {
    return this.#send("query");
  }

  /**
   * Gives the other side's descriptions, candidates and informations to `take({kind, body})`, one after the other, those
   * that came before included. There is one taker; the next one replaces it.
   */
  onSignal(take) {
    this.#takeSignal = take;
    while (this.#takeSignal && this.#backlog.length > 0) this.#takeSignal(this.#backlog.shift());
  }

  /** Takes an event of the machine. Only the device calls this. */
  handle(event) {
    const { type, ...detail } = event;
    if (type === "signal") return this.#signal(detail);
    this.emit(type, detail);
    this.emit("state", { state: this.state });
  }

  #signal(signal) {
    if (this.#takeSignal) {
      this.#takeSignal(signal);
    } else {
      if (this.#backlog.length >= backlogMax) {
        const index = this.#backlog.findIndex(({ kind }) => kind === "candidate");
        this.#backlog.splice(Math.max(0, index), 1);
      }
      this.#backlog.push(signal);
    }
    this.emit(signal.kind, { body: signal.body });
  }

  #send(name, body = {}) {
    // The cluster drops signals of a call that is over.
    if (this.isOver && signals.has(name)) return Promise.resolve({ done: {} });
    return this.#device.command(name, { call: this.address, ...body }, this);
  }
}

const signals = new Set(["description", "candidate", "information"]);

const wrongState = (call) => new CallmeshError(404, `The call is ${call.state}.`);

