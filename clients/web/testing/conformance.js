// Lets the conformance suite drive this client: lines of JSON come in, and what the client shows goes out.
// docs/conformance.md describes the lines.

import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import { Device } from "../callmesh.js";
import { NodeSocket } from "./node-socket.js";
import { seeded } from "./world.js";

const show = (name, body = {}) => process.stdout.write(`${JSON.stringify({ [name]: body })}\n`);
const turn = () => new Promise((resolve) => setImmediate(resolve));

/** Time that passes only when the suite says so. */
class VirtualTime {
  now = 0;
  #timers = new Map();
  #last = 0;

  set(callback, ms) {
    this.#timers.set(++this.#last, { at: this.now + ms, callback });
    return this.#last;
  }

  clear(timer) {
    this.#timers.delete(timer);
  }

  async advance(ms) {
    const end = this.now + ms;
    for (;;) {
      const due = [...this.#timers].filter(([, { at }]) => at <= end).sort(([, a], [, b]) => a.at - b.at)[0];
      if (!due) break;
      this.#timers.delete(due[0]);
      this.now = Math.max(this.now, due[1].at);
      due[1].callback();
      await turn();
    }
    this.now = end;
  }
}

/** Attempts to connect take real time, of which virtual time knows nothing: the suite waits for them. */
const sockets = new Set();

class WatchedSocket extends NodeSocket {
  constructor(...options) {
    super(...options);
    sockets.add(this);
  }

  static get isConnecting() {
    for (const socket of sockets) if (socket.readyState > 1) sockets.delete(socket);
    return [...sockets].some(({ readyState }) => readyState === 0);
  }
}

const time = new VirtualTime();
let device = null;
let giveToken = () => {};

const environment = {
  now: () => time.now,
  random: seeded(process.pid),
  setTimer: (callback, ms) => time.set(callback, ms),
  clearTimer: (timer) => time.clear(timer),
  uuid: randomUUID,
  WebSocket: WatchedSocket,
};

function start({ edges, device: id, deviceName, token, renews, ongoing, history, relays, onlyPlaces }) {
  const getToken = () => (show("needsToken"), new Promise((resolve) => (giveToken = resolve)));
  const options = { edges, device: id, deviceName, token, ongoing, history, relays, onlyPlaces, firstEdge: 0, watchesPage: false, environment };
  if (renews) options.getToken = getToken;
  device = new Device(options);
  device.on("attached", () => (show("attached"), showRelays()));
  device.on("relays", showRelays);
  device.on("detached", () => show("detached"));
  device.on("refused", ({ error }) => show("refused", { code: error.code }));
  device.on("ongoing", ({ calls }) => show("ongoing", { calls }));
  device.on("history", (state) => show("history", state));
  device.on("notice", ({ kind }) => show("notice", { kind }));
  device.on("incoming", ({ call }) => rings(call));
  device.on("taken", ({ call }) => listen(call));
  // The end of a call that has never rung here.
  device.on("ended", ({ call }) => heard.has(call) || ended(call, call.end));
  device.start();
}

function showRelays() {
  for (const { urls, username, credential } of device.iceServers) show("relays", { urls, username, password: credential });
}

const heard = new WeakSet();

/** Shows what happens to a call. */
function listen(call) {
  if (heard.has(call)) return call;
  heard.add(call);
  const { id } = call;
  call.onSignal(({ kind, body }) => show("signal", { call: id, kind, body }));
  call.on("answered", ({ isHere, by, description }) => show(isHere ? "won" : "answered", { call: id, by, description }));
  call.on("ringing", ({ by }) => call.role === "caller" && show("ringing", { call: id, by }));
  call.on("ringsUntil", ({ deadlineMs }) => show("ringsUntil", { call: id, deadlineMs }));
  call.on("moved", ({ to, description }) => show("moved", { call: id, to, description }));
  call.on("transfer", (news) => show("transfer", { call: id, ...news }));
  call.on("ended", (end) => ended(call, end));
  return call;
}

function rings(call) {
  const { id, callee, caller, description, video, headers, pushData, divertedBy, transferredBy, consulted } = call;
  const { isSecondCall: secondCall, isSecondSide: secondSide, merged } = call;
  show("rings", { call: id, callee, caller, description, video, headers, pushData, secondCall, secondSide, merged, divertedBy, transferredBy, consulted });
  listen(call);
}

function ended({ id }, { reason, by, missed, survivor, unreachable }) {
  show("stopped", { call: id, reason, by, missed, survivor, unreachable });
}

/** The user's actions on a call that the device knows. */
const ofCall = {
  alerting: (call) => call.alerting(),
  answer: (call, { description }) => call.answer(description),
  decline: (call, { scope }) => (scope === "here" ? call.declineHere() : call.decline()),
  busy: (call) => call.busy(),
  cancel: (call) => call.cancel(),
  connected: (call) => call.connected(),
  hangUp: (call) => call.hangUp(),
  description: (call, { body }) => call.sendDescription(body),
  candidate: (call, { body }) => call.sendCandidate(body),
  information: (call, { body }) => call.sendInformation(body),
  transfer: (call, { to, device, consulted }) => call.transfer(to, { device, consulted }),
  cancelTransfer: (call) => call.cancelTransfer(),
};

/** The app's actions beside its calls. */
const ofDevice = {
  place: ({ call, ...options }) => listen(device.place(call.callee, { id: call.id, ...options })).placed,
  resume: ({ call }) => listen(device.resume(call)).placed,
  pull: ({ call, from, description }) => device.pull({ call, device: from }, description),
  query: ({ call }) => device.query(call),
  calls: () => device.liveCalls(),
  register: (registration) => device.register(registration),
  unregister: ({ device: id }) => device.unregister(id),
  history: (options) => device.history(options),
  historyRead: ({ upTo }) => device.markHistoryRead(upTo),
  rules: () => device.rules(),
  setRules: (rules) => device.setRules(rules),
};

async function command(name, body) {
  const of = { of: name, call: body.call?.id };
  try {
    const call = name in ofCall ? device.find(body.call.id) : null;
    if (name in ofCall && !call) throw Object.assign(new Error("no such call"), { code: 400 });
    const value = await (call ? ofCall[name](call, body) : ofDevice[name](body));
    show("result", { ...of, value: name === "pull" || value === undefined ? null : value });
  } catch (error) {
    show("failed", { ...of, code: error.code ?? String(error) });
  }
}

/** Handles one line of the suite. */
async function handle(name, body) {
  switch (name) {
    case "start":
      return start(body);
    case "signOut":
      return device.stop();
    case "token":
      return giveToken(body.token);
    case "wake":
      return void device.wake(body.call);
    case "advance":
      await time.advance(body.ms);
      return show("synced", { n: body.n });
    case "sync":
      for (let round = 0; round < 4 || WatchedSocket.isConnecting; round += 1) await turn();
      return show("synced", { n: body.n });
    default:
      return void command(name, body);
  }
}

show("ready", { name: "clients/web", clock: "virtual", encodings: ["json"] });
for await (const line of createInterface({ input: process.stdin })) {
  const [name, body] = Object.entries(JSON.parse(line))[0];
  await handle(name, body);
}
