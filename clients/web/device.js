import { Call } from "./call.js";
import { Driver } from "./driver.js";
import { CallmeshError } from "./errors.js";
import { checkBytes, settle } from "./settings.js";
import { keyOf } from "./machine-calls.js";
import { isOver, newView } from "./call-view.js";
import { watchPage } from "./page.js";
import { UserData } from "./user-data.js";

/** A user's device: it stays connected, places and takes calls, and tells what happens as events. */
export class Device extends UserData {
  #driver;
  #calls = new WeakMap();
  #wanted = new Set();
  /** The ids of calls that end when they come: one of this device gave way to each, and its user hung up. */
  #unwanted = new Set();
  /** Those of them that have come. The app gets their end alone. */
  #unseen = new WeakSet();
  #unwatch = null;
  #settings;
  #watchesPage;

  /** @param options the edges, the device's id, `getToken` and more; `callmesh.d.ts` has them all */
  constructor(options) {
    super();
    this.#settings = settle(options);
    this.#watchesPage = options.watchesPage ?? true;
    this.#driver = new Driver(this.#settings, options, {
      session: (type, detail) => this.emit(type, detail),
      call: (view, event) => this.#happened(view, event),
    });
  }

  /** `stopped`, `waiting`, `connecting`, `attaching` or `attached`. */
  get state() {
    return this.#driver.machine.phase.name;
  }
  get user() {
    return this.#driver.machine.user;
  }
  /** This device's id, as the cluster knows it. */
  get id() {
    return this.#driver.machine.device || this.#settings.device;
  }
  /** The cluster's time in milliseconds since 1970; null before the first attach. */
  get clusterTime() {
    const { clockOffset } = this.#driver.machine;
    return clockOffset === null ? null : this.#driver.environment.now() + clockOffset;
  }
  /** The calls that are not over. */
  get calls() {
    const views = [...this.#driver.machine.calls.values()].filter((view) => !isOver(view));
    return views.filter((view) => view.state !== "waking").map((view) => this.#call(view));
  }
  /** The calls that the user is in, on all devices, if `ongoing` was set. */
  get ongoing() {
    return this.#driver.machine.ongoing.calls;
  }
  /** How the user's history stands, if `history` was set: `{cursor, unread}`. */
  get historyState() {
    return this.#driver.machine.history;
  }
  /**
   * The TURN servers for peer connections, if `relays` was set and the edge has some: `[{urls, username, credential}]`.
   * Empty once the credentials have expired.
   */
  get iceServers() {
    const { relays } = this.#driver.machine;
    if (!relays || !(this.clusterTime < relays.expiresAtMs)) return [];
    const { urls, username, password } = relays;
    return [{ urls, username, credential: password }];
  }

  /** The call with this id, if the device knows one; it may be over. */
  find(id) {
    const views = [...this.#driver.machine.calls.values()];
    const view = views.findLast((view) => view.id === id.toLowerCase());
    return view ? this.#call(view) : null;
  }

  // The session.

  /** Connects, and stays connected. */
  start() {
    if (this.#watchesPage) this.#unwatch ??= watchPage(this);
    this.#driver.handle({ type: "start" });
  }

  /** The user signs out: the device stops being rung, and its calls end here. */
  stop() {
    this.#halt(true);
  }

  /** Leaves without signing out, as a page that is closed does: the device rings again as soon as it is back. */
  leave() {
    this.#halt(false);
  }

  #halt(detach) {
    this.#unwatch?.();
    this.#unwatch = null;
    this.#driver.handle({ type: "stop", detach });
  }

  /** Finds out at once whether the connection lives, or connects at once. */
  probe() {
    this.#driver.handle({ type: "probe" });
  }

  /**
   * Drops the connection and keeps the calls, until `probe`: the browser keeps the page for a way back, and nobody
   * would hear it ring. `watchPage` does this.
   */
  suspend() {
    this.#driver.handle({ type: "suspend" });
  }

  /** Tells the device whether its page can be seen; `watchPage` does this. */
  setHidden(isHidden) {
    this.#driver.handle({ type: "visibility", isHidden });
  }

  // Calls.

  /**
   * Calls a user, or a group. The call's progress comes as its events.
   * @returns the call at once; `call.placed` tells whether the cluster has accepted it
   */
  place(callee, { id, description, video, headers, pushData, ringTimeoutSeconds } = {}) {
    checkBytes(callee, 128, 410, "The callee");
    if (!callee) throw new CallmeshError(410, "There is no callee.");
    if (description) checkBytes(description, 65_536, 408, "The description");
    if (pushData) checkBytes(pushData, 1024, 414, "The data for pushes");
    const view = newView((id ?? this.#driver.environment.uuid()).toLowerCase(), callee, "caller", "placing");
    const call = this.#call(view);
    const body = { call: call.address };
    const optional = { ringTimeoutSeconds, description, headers, video, pushData };
    for (const [name, value] of Object.entries(optional)) if (value) body[name] = value;
    const key = keyOf(call.address);
    if (this.#driver.machine.calls.has(key)) throw new CallmeshError(401, "This device has a call with this id.");
    call.placed = this.#driver.submit("place", body, key, view).then((reply) => reply.call);
    // An app that follows the events need not look at the promise.
    call.placed.catch(() => {});
    return call;
  }

  /**
   * Takes an answered call over from another device of the user.
   * @param ongoing an entry of `ongoing`, or `{call, device}`
   * @returns the call, or null where it is over or another device was faster
   */
  async pull({ call, device, user, name }, description = "") {
    checkBytes(description, 65_536, 408, "The description");
    const address = { callee: call.callee || this.user, id: call.id.toLowerCase() };
    const key = keyOf(address);
    const reply = await this.#driver.submit("pull", { call: address, from: device, description }, key);
    const view = reply.answer?.won ? this.#driver.machine.calls.get(key) : null;
    if (!view) return null;
    if (user) view.peer ??= { user, name };
    return this.#call(view);
  }

  /** Takes a call up that this device placed before its page was loaded anew; `liveCalls` names them. */
  resume({ callee, id }) {
    const view = newView(id.toLowerCase(), callee, "caller", "placing");
    view.isResumed = true;
    const call = this.#call(view);
    call.placed = this.#driver.submit("resume", { call: call.address }, keyOf(call.address), view);
    call.placed.catch(() => {});
    return call;
  }

  /** Ends a call of a former page, instead of resuming it. */
  async end({ callee, id }) {
    return (await this.#driver.submit("hangUp", { call: { callee, id } })).call;
  }

  /** A push announced a call: connects at once. The event `incoming`, or the call's `ended`, follows. */
  wake({ callee, id, isWanted = false }) {
    const key = keyOf({ callee, id });
    if (isWanted) this.#want(key);
    this.#driver.handle({ type: "wake", id, callee });
    if (this.state === "stopped") this.start();
    const view = this.#driver.machine.calls.get(key);
    return view ? this.#call(view) : null;
  }

  /** The user has answered in a notification, perhaps before the invite has come. */
  #want(key) {
    this.#wanted.add(key);
    dropOldest(this.#wanted);
    const view = this.#driver.machine.calls.get(key);
    if (view?.state !== "ringing") return;
    this.#wanted.delete(key);
    const call = this.#call(view);
    call.isWanted = true;
    this.emit("wanted", { call });
  }

  /** The live calls of this device, for a page that was loaded anew: `{placed, received}`. */
  async liveCalls() {
    const { calls = {} } = await this.#driver.submit("calls", {});
    return { placed: calls.placed ?? [], received: calls.received ?? [] };
  }

  /** Asks for the state of any call. */
  async query({ callee, id }) {
    return (await this.#driver.submit("query", { call: { callee, id } })).call;
  }

  /** Sends a command of a call. Only calls use this. */
  command(name, body, call) {
    return this.#driver.submit(name, body, keyOf(call.address));
  }

  /** Sends a command about the user. */
  request(name, body) {
    return this.#driver.submit(name, body);
  }

  /** Ends the call to which one of this device gave way, at once or when it comes. Only calls use this. */
  async finishSurvivor(id) {
    const call = this.find(id);
    // One that is declined here comes all the same if the cluster connects both devices meanwhile.
    this.#unwanted.add(id.toLowerCase());
    dropOldest(this.#unwanted);
    if (call && !call.isOver) await call.finish();
  }

  #call(view) {
    let call = this.#calls.get(view);
    if (!call) this.#calls.set(view, (call = new Call(this, view)));
    return call;
  }

  #happened(view, event) {
    const isNew = !this.#calls.has(view);
    const call = this.#call(view);
    if (event.type === "incoming" && this.#unwanted.delete(view.id) && !call.transferredBy) {
      this.#unseen.add(call);
      call.finish().catch(() => {});
    }
    if (this.#unseen.has(call) && event.type !== "ended") return;
    if (event.type === "incoming") {
      call.isWanted = this.#wanted.delete(`${view.id}/${view.callee}`);
      call.crosses = event.crosses ? this.#call(event.crosses) : null;
      this.emit("incoming", { call });
    } else if (isNew && event.type === "answered") {
      // It was pulled, or a former page of this device had answered it.
      this.emit("taken", { call });
    }
    call.handle(event.type === "incoming" ? { type: "incoming" } : event);
    this.emit("call", { call, event: event.type });
    if (event.type === "ended") this.emit("ended", { call });
  }
}

/** Keeps a set of what is still to come in bounds. */
function dropOldest(set) {
  if (set.size > 16) set.delete(set.values().next().value);
}
