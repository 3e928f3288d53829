// Actions of the user, and events of the cluster: between the model and the client.

import { Device } from "../callmesh.js";
import { isTalking, seenOf } from "./model-calls.js";
import { Line } from "./line.js";
import { Pushes } from "./pushes.js";
import { UserLists } from "./user-lists.js";
import { errorText, refusalText } from "./words.js";

/**
 * Events of calls that are not for the model. `state` follows each of the others, and the device says that a call rings,
 * and whether it does so aloud.
 */
const skipped = new Set(["description", "candidate", "information", "incoming", "state"]);

/** A signed-in user's phone: the device, its calls, and what the page can do with them. */
export class Phone {
  #store;
  #streams;
  #settings;
  #lines = new Set();
  #pulling = new Set();
  #followed = new WeakSet();

  /** @param settings `edges`, `deviceId`, `getToken(user)`, and maybe `rtc`, `push` and `ringTimeoutSeconds` */
  constructor({ user, deviceName, store, streams, settings }) {
    this.#store = store;
    this.#streams = streams;
    this.#settings = settings;
    this.device = new Device({
      edges: settings.edges,
      device: settings.deviceId,
      deviceName,
      getToken: () => settings.getToken(user),
      ongoing: true,
      history: true,
      relays: true,
    });
    this.lists = new UserLists(this.device, store);
    this.pushes = new Pushes(this.device, settings);
    this.#listen();
    this.pushes.follow();
  }

  start() {
    this.device.start();
  }

  /** Signs out: the device is rung no more, and its calls end. */
  async stop() {
    // Else the other side would wait a minute for this one.
    for (const call of this.device.calls) if (isTalking(call) || call.role === "caller") call.finish().catch(() => {});
    for (const line of this.#lines) this.#drop(line);
    this.pushes.unfollow();
    this.lists.close();
    await this.pushes.disable();
    this.device.stop();
  }

  /** The call's media on this page; null: it has none. */
  line(id) {
    return [...this.#lines].find((line) => line.id === id) ?? null;
  }

  // Events of the cluster.

  #listen() {
    const { device } = this;
    const tell = (type, event = {}) => this.#store.dispatch({ type, ...event });
    device.on("attached", ({ isAgain }) => {
      tell("attached", { user: device.user, device: device.id });
      this.run(this.lists.load());
      this.run(this.pushes.enable());
      if (!isAgain) this.run(this.#takeUp());
    });
    device.on("detached", () => tell("detached"));
    device.on("refused", ({ error }) => {
      this.pushes.unfollow();
      // One may wait for the call to which its own gave way, and which does not come any more.
      for (const line of this.#lines) this.#drop(line);
      tell("refused", { text: refusalText(error) });
    });
    device.on("tokenFailed", ({ error }) => tell("notice", { text: error.message }));
    device.on("ongoing", ({ calls }) => tell("ongoing", { calls, aheadMs: Date.now() - device.clusterTime }));
    device.on("incoming", ({ call }) => this.#rings(call));
    // A call to which one of this page has given way may be over without having rung here.
    device.on("ended", ({ call }) => {
      if (this.#followed.has(call)) return;
      this.#ended(call, call.end);
      this.#tell(call, "ended", call.end);
    });
    device.on("wanted", ({ call }) => this.answer(call.id));
    device.on("taken", ({ call }) => {
      this.#follow(call);
      if (!this.#pulling.has(call.id)) this.run(this.#newLine(call.id).resume());
    });
  }

  /** Tells the model of all that happens to a call. */
  #follow(call) {
    if (this.#followed.has(call)) return;
    this.#followed.add(call);
    call.on("*", (detail, event) => {
      if (event === "information") this.line(call.id)?.heard(detail.body);
      if (event === "ended") this.#ended(call, detail);
      if (!skipped.has(event)) this.#tell(call, event, detail);
    });
  }

  #tell(call, event, detail = {}) {
    this.#store.dispatch({ type: "call", seen: seenOf(call), event, detail });
  }

  #rings(call) {
    this.#follow(call);
    const { crosses } = call;
    const isCrossing = crosses && (!crosses.isOver || crosses.end.reason === "glare");
    const isQuiet = !!isCrossing || !!call.consulted || !!call.merged;
    this.#tell(call, "incoming", { isQuiet });
    if (call.merged) this.#goOn(call);
    // The user has said yes already: to who hands the call over, or in a notification.
    if (call.consulted || call.isWanted) this.answer(call.id);
    else if (!isQuiet) this.run(call.alerting());
  }

  /** This page's call gave way to that one. If its media are gone, the page was loaded anew. */
  #goOn(call) {
    const hasLine = [...this.#lines].some((line) => line.survivor === call.id || line.id === call.merged);
    if (!hasLine) call.on("answered", () => this.line(call.id) ?? this.run(this.#newLine(call.id).resume()));
  }

  #ended(call, { reason, survivor }) {
    for (const line of this.#lines) {
      if (line.id === call.id && reason === "glare" && survivor) line.survivor = survivor;
      else if (line.id === call.id || line.survivor === call.id) this.#drop(line);
    }
    if (reason === "glare") return;
    // Neither call gives way: the one that crossed this one rings after all.
    for (const other of this.device.calls) if (other.crosses === call && other.state === "ringing") this.#rings(other);
  }

  #drop(line) {
    line.close();
    this.#lines.delete(line);
  }

  /** Calls that this device placed before its page was loaded anew go on. Those to the user come by themselves. */
  async #takeUp() {
    const { placed } = await this.device.liveCalls();
    for (const { call: address } of placed) {
      if (this.device.find(address.id)) continue;
      const call = this.device.resume(address);
      this.#follow(call);
      this.#tell(call, "placed");
      const line = this.#newLine(call.id);
      const answered = call.on("answered", () => {
        answered();
        this.run(line.resume());
      });
    }
  }

  #newLine(id) {
    const line = new Line(id, {
      device: this.device,
      streams: this.#streams,
      store: this.#store,
      rtc: this.#settings.rtc,
    });
    this.#lines.add(line);
    return line;
  }

  // Actions of the user.

  /** Calls a user. @param options `video`; `asksFor`: the id of the call that this user is asked to take */
  dial(callee, { video = false, asksFor = null } = {}) {
    const id = crypto.randomUUID();
    this.holdOthers(null);
    this.#store.dispatch({ type: "dialled", id, callee, video, asksFor });
    const line = this.#newLine(id);
    this.run(
      line.place(callee, { video, ringTimeoutSeconds: this.#settings.ringTimeoutSeconds }).then(() => {
        const { call } = line;
        if (!call) return;
        this.#follow(call);
        this.#tell(call, call.isOver ? "ended" : "placing", call.end ?? {});
        if (call.isOver) this.#ended(call, call.end);
      }),
      () => {
        this.#drop(line);
        this.#store.dispatch({ type: "dropped", id });
      },
    );
  }

  answer(id, { video = false } = {}) {
    this.holdOthers(id);
    this.#store.dispatch({ type: "callPart", id, state: "answering" });
    const line = this.#newLine(id);
    this.run(line.answer({ video }), () => {
      this.#drop(line);
      this.#tell(this.device.find(id), "ringing");
    });
  }

  /** Declines for the user, here (`declineHere`), or says that this device is busy (`busy`). */
  decline(id, how = "decline") {
    this.#store.dispatch({ type: "callPart", id, isLeaving: true, isDeclinedHere: how !== "decline" });
    const failed = () => this.#store.dispatch({ type: "callPart", id, isLeaving: false, isDeclinedHere: false });
    this.run(this.device.find(id)?.[how](), failed);
  }

  /** Ends the call. Nothing is sent or heard any more at once, whatever the connection to the cluster does. */
  hangUp(id) {
    this.#store.dispatch({ type: "callPart", id, isLeaving: true });
    const line = this.line(id);
    const call = this.device.find(line?.survivor ?? id);
    if (!call || call.isOver) {
      // The microphone was not there yet, or the call is over. One to which it gave way may be still to come.
      const own = line?.call;
      if (line) this.#drop(line);
      if (own) this.run(own.finish());
      return this.#store.dispatch({ type: "dropped", id });
    }
    line?.close();
    // One that rings here may be answered without this page meanwhile, as that to which the page's own gives way.
    this.run((line?.survivor ? line.call : call).finish(), () => this.#store.dispatch({ type: "callPart", id, isLeaving: false }));
  }

  hold(id, isHeld) {
    if (!isHeld) this.holdOthers(id);
    this.line(id)?.hold(isHeld);
  }

  /** Puts all calls on hold but one. */
  holdOthers(id) {
    for (const call of this.#store.model.calls) {
      if (call.id !== id && isTalking(call)) this.line(call.id)?.hold(true);
    }
  }

  /** Takes a call over from another device of the user. */
  pull(entry) {
    this.run(this.#pull(entry));
  }

  async #pull(entry) {
    const { id } = entry.call;
    this.#pulling.add(id);
    this.holdOthers(id);
    const line = this.#newLine(id);
    try {
      await line.pull(entry);
      if (line.media) return;
      this.#store.dispatch({ type: "notice", text: "The call is over, or on another device by now." });
    } finally {
      // Else it would hide the line of another attempt, and the user would mute a microphone that is closed.
      if (!line.media) this.#drop(line);
      this.#pulling.delete(id);
    }
  }

  /** Hands a call over: to whoever answers at `to`, or to the one who was asked in the call `consulted`. */
  transfer(id, to, consulted = null) {
    const asked = consulted && this.device.find(consulted);
    const options = asked ? { device: asked.peer?.device, consulted: asked } : {};
    this.#store.dispatch({ type: "callPart", id, transfer: { to, by: null, reason: null } });
    const failed = () => this.#store.dispatch({ type: "callPart", id, transfer: null });
    this.run(this.device.find(id)?.transfer(to, options), failed);
  }

  cancelTransfer(id) {
    this.#store.dispatch({ type: "callPart", id, transfer: null });
    this.run(this.device.find(id)?.cancelTransfer());
  }

  /** Sends from another microphone or camera in all calls. */
  changeMedia(kind) {
    for (const line of this.#lines) this.run(line.change(kind));
  }

  /** Says why something did not work. What signing out ends did not fail: nobody waits for it any more. */
  run(work, failed = () => {}) {
    Promise.resolve(work).catch((error) => {
      failed();
      if (error?.codeName === "stopped") return;
      this.#store.dispatch({ type: "notice", text: errorText(error) });
    });
  }
}
