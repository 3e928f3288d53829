// A scripted edge for tests: sockets, time and chance that a test controls.

import assert from "node:assert/strict";
import { Device } from "../callmesh.js";

/** Chance that is the same in each run. */
export function seeded(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** Lets promises that are settled run their continuations. It waits for nothing. */
export async function settled() {
  for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

export const ids = {
  a: "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
  b: "7d444840-9dc0-11d1-b245-5ffdce74fad2",
  c: "0b0e4a52-61a5-4b6e-9f3a-1a52b7c20001",
};

/** The cluster's clock at the start. */
export const epochMs = 1_790_000_000_000;

export class World {
  time = 0;
  sockets = [];
  tokens = 0;
  #timers = new Map();
  #lastTimer = 0;

  constructor(seed = 1) {
    this.random = seeded(seed);
    this.nextIds = [];
  }

  /** The environment of a device, in place of the browser. */
  get environment() {
    const world = this;
    return {
      now: () => world.time,
      random: () => world.random(),
      setTimer: (callback, ms) => world.#setTimer(callback, ms),
      clearTimer: (timer) => world.#timers.delete(timer),
      uuid: () => world.nextIds.shift() ?? ids.a,
      WebSocket: class extends FakeSocket {
        constructor(url, protocols) {
          super(world, url, protocols);
        }
      },
    };
  }

  #setTimer(callback, ms) {
    this.#timers.set(++this.#lastTimer, { at: this.time + ms, callback });
    return this.#lastTimer;
  }

  /** Lets time pass, with all timers that are due, in their order. */
  async pass(ms) {
    const end = this.time + ms;
    for (;;) {
      let first = null;
      for (const [timer, { at }] of this.#timers) {
        if (at <= end && (first === null || at < this.#timers.get(first).at)) first = timer;
      }
      if (first === null) break;
      const { at, callback } = this.#timers.get(first);
      this.#timers.delete(first);
      this.time = Math.max(this.time, at);
      callback();
      await settled();
    }
    this.time = end;
    await settled();
  }

  /** A frozen page: time passes, and the timers that are due fire late, at its end. */
  async freeze(ms) {
    this.time += ms;
    await this.pass(0);
  }

  /** Makes a device that is not started. Its events are in `device.heard`. */
  device(options = {}) {
    const device = new Device({
      edges: ["wss://one.example"],
      device: "ann-phone",
      firstEdge: 0,
      watchesPage: false,
      getToken: async () => `token-${++this.tokens}`,
      environment: this.environment,
      ...options,
    });
    device.heard = [];
    device.on("*", (detail, type) => device.heard.push({ type, ...detail }));
    return device;
  }

  /** Starts a device and attaches it. @returns the device and its socket */
  async attached(options = {}, info = {}) {
    const device = this.device(options);
    device.start();
    await settled();
    const socket = this.socket();
    await socket.attach({ device: options.device ?? "ann-phone", user: (options.device ?? "ann-phone").split("-")[0], ...info });
    return { device, socket };
  }

  /** The newest socket. */
  socket() {
    return this.sockets.at(-1);
  }

  /** Lets time pass until the device connects. */
  async connecting() {
    for (let step = 0; this.socket().readyState !== 0; step += 1) {
      assert.ok(step < 2000, "the device does not connect");
      await this.pass(50);
    }
    return this.socket();
  }

  get clusterTime() {
    return epochMs + this.time;
  }
}

/** A WebSocket whose other end is the test. */
export class FakeSocket {
  readyState = 0;
  protocol = "";
  bufferedAmount = 0;
  frames = [];
  acks = [];
  closedWith = null;
  #world;
  #read = 0;

  constructor(world, url, protocols) {
    assert.deepEqual(protocols, ["callmesh.v1.json"]);
    this.#world = world;
    this.url = url;
    world.sockets.push(this);
  }

  // Methods that the client calls.

  send(text) {
    assert.equal(this.readyState, 1);
    const frame = JSON.parse(text);
    if (frame.ack) this.acks.push(...frame.ack.items);
    else this.frames.push(frame);
  }

  close(code) {
    if (this.readyState === 3) return;
    this.readyState = 3;
    this.closedWith = code;
  }

  // Actions of the test.

  open() {
    this.readyState = 1;
    this.protocol = "callmesh.v1.json";
    this.onopen?.({});
  }

  /** Opens, reads the attach and answers it. */
  async attach(info = {}) {
    if (this.readyState === 0) this.open();
    const frame = this.next("attach");
    this.reply(frame, {
      attached: {
        session: "51a7-1",
        user: "ann",
        device: "ann-phone",
        pingSeconds: 25,
        serverTimeMs: this.#world.clusterTime,
        ...info,
      },
    });
    await settled();
    return frame;
  }

  say(frame) {
    this.onmessage?.({ data: typeof frame === "string" ? frame : JSON.stringify(frame) });
  }

  /** Says a delivery. `what` has one of invite, ringing, answered, …, and perhaps `after`. */
  deliver(call, version, what) {
    this.say({ delivery: { call, version, atMs: this.#world.clusterTime, ...what } });
  }

  reply(frame, what) {
    this.say({ reply: { id: frame.id, ...what } });
  }

  state(frame, phase, more = {}) {
    const [name] = Object.keys(frame).filter((key) => key !== "id");
    const state = { call: frame[name].call, phase, version: 1048576, atMs: this.#world.clusterTime, ...more };
    this.reply(frame, { call: state });
  }

  refuse(frame, code, more = {}) {
    this.reply(frame, { error: { code, name: "", message: `Error ${code}.`, ...more } });
  }

  won(frame, by, more = {}) {
    const call = { call: frame.answer?.call ?? frame.pull?.call, phase: "answered", version: 1048582, by, ...more };
    this.reply(frame, { answer: { won: true, call } });
  }

  /** The connection breaks, or the edge closes it. */
  break(code = 1006) {
    if (this.readyState === 3) return;
    this.readyState = 3;
    this.onclose?.({ code });
  }

  /** The next frame of the client that no test has read, which must be this command. */
  next(name) {
    const frame = this.frames[this.#read];
    assert.ok(frame, `nothing was sent where ${name} was expected`);
    assert.ok(name in frame, `${JSON.stringify(frame)} was sent where ${name} was expected`);
    this.#read += 1;
    return frame;
  }

  /** The client has sent nothing more. */
  quiet() {
    assert.deepEqual(this.frames.slice(this.#read), []);
  }

  /** The names of the commands that no test has read; they count as read. */
  names() {
    const names = this.frames.slice(this.#read).map((frame) => Object.keys(frame).find((key) => key !== "id"));
    this.#read = this.frames.length;
    return names;
  }
}

/** Collects the events of a call, by name. */
export function listen(call) {
  const events = [];
  call.on("*", (detail, type) => {
    if (type !== "state") events.push({ type, ...detail });
  });
  return events;
}

export const named = (events, type) => events.filter((event) => event.type === type);
