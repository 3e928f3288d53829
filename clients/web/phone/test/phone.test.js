import assert from "node:assert/strict";
import { test } from "node:test";
import { CallmeshError } from "../../errors.js";
import { FakePeerConnection, track } from "../../testing/peer-connections.js";
import { World, epochMs, ids, settled } from "../../testing/world.js";
import { Line } from "../line.js";
import { findCall, incoming } from "../model-calls.js";
import { Phone } from "../phone.js";
import { Store } from "../store.js";

const bob = { user: "bob", device: "bob-phone" };
const answer = "v=0\r\no=- 7 2 IN IP4 1\r\na=setup:active\r\n";

class Stream {
  constructor(tracks = []) {
    this.tracks = [...tracks];
  }
  getTracks() {
    return this.tracks;
  }
  addTrack(track) {
    this.tracks.push(track);
  }
}

/** A microphone that is there when `allowed` is, and its tracks. */
function microphone(allowed = null) {
  const tracks = [];
  const open = (kind) => {
    const made = { ...track(kind), enabled: true, isOpen: true, stop: () => (made.isOpen = false), addEventListener() {} };
    tracks.push(made);
    return made;
  };
  return {
    tracks,
    async open() {
      await allowed;
      return { stream: new Stream([open("audio")]), problems: [] };
    },
    track: async (kind) => open(kind),
  };
}

/** Ann's phone, attached to an edge. */
async function attached(streams = microphone()) {
  const world = new World();
  const kept = new Map();
  globalThis.sessionStorage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, text) => kept.set(key, text) };
  Object.assign(globalThis, { RTCPeerConnection: FakePeerConnection, MediaStream: Stream, BroadcastChannel: undefined });
  globalThis.WebSocket = world.environment.WebSocket;
  const store = new Store({ nowMs: epochMs });
  store.dispatch({ type: "signingIn", user: "ann", name: "Ann", deviceName: "Ann's phone" });
  const settings = { edges: ["ws://one.example"], deviceId: "ann-phone", getToken: async () => "token" };
  const phone = new Phone({ user: "ann", deviceName: "Ann's phone", store, streams, settings });
  phone.start();
  await settled();
  const socket = world.socket();
  await socket.attach({ user: "ann", device: "ann-phone" });
  await settled();
  socket.names();
  return { phone, store, socket, streams };
}

/** Ann's phone, in a call with Bob. */
async function talking() {
  const stage = await attached();
  stage.phone.dial("bob");
  await settled();
  const { call } = stage.socket.next("place").place;
  stage.socket.state(stage.socket.frames.findLast(({ place }) => place), "placed");
  stage.socket.deliver(call, 1048580, { answered: { by: bob, description: answer } });
  await settled();
  assert.equal(stage.store.model.calls[0].state, "answered");
  stage.socket.names();
  return { ...stage, id: call.id };
}

/** A phone that waits for its token, and what it says did not work. */
function waiting() {
  const notices = [];
  const store = { dispatch: (event) => event.type === "notice" && notices.push(event.text) };
  const settings = { edges: ["ws://127.0.0.1:1"], deviceId: "ann-1", getToken: () => new Promise(() => {}) };
  const phone = new Phone({ user: "ann", deviceName: "Ann's phone", store, streams: null, settings });
  phone.start();
  return { phone, notices };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

test("what is under way when the user signs out did not fail", async () => {
  const { phone, notices } = waiting();
  let wasUndone = false;
  phone.run(phone.device.history(), () => (wasUndone = true));
  await phone.stop();
  await turn();
  assert.equal(wasUndone, true, "it was under way");
  assert.deepEqual(notices, []);
});

test("what fails otherwise is said", async () => {
  const { phone, notices } = waiting();
  phone.run(Promise.reject(new CallmeshError(501, "No answer in time.")));
  await turn();
  assert.deepEqual(notices, ["The cluster gave no answer. Try again."]);
  await phone.stop();
});

test("the user mutes while the browser asks for the microphone", async () => {
  let allow;
  const streams = microphone(new Promise((resolve) => (allow = resolve)));
  const { phone, store } = await attached(streams);
  phone.dial("bob");
  const [{ id }] = store.model.calls;
  phone.line(id).mute(true);
  allow();
  await settled();
  assert.deepEqual([findCall(store.model, id).isMuted, streams.tracks[0].enabled], [true, false]);
  phone.device.leave();
});

test("the camera does not stay on that was asked for before the microphone was there", async () => {
  let allow;
  const streams = microphone(new Promise((resolve) => (allow = resolve)));
  const { phone, store } = await attached(streams);
  phone.dial("bob");
  await phone.line(store.model.calls[0].id).camera(true);
  phone.hangUp(store.model.calls[0].id);
  allow();
  await settled();
  assert.deepEqual(streams.tracks.map(({ kind, isOpen }) => [kind, isOpen]), [["video", false], ["audio", false]]);
  phone.device.leave();
});

test("another page takes the device over while a call gives way: the microphone closes", async () => {
  const { phone, socket, streams } = await attached();
  phone.dial("bob");
  await settled();
  const place = socket.next("place");
  socket.state(place, "placed");
  socket.deliver(place.place.call, 1048580, { stop: { reason: "glare", survivor: ids.b } });
  socket.break(4000);
  await settled();
  assert.deepEqual(streams.tracks.map(({ isOpen }) => isOpen), [false]);
});

test("a call on hold stays so when the page is loaded anew", async () => {
  const { phone, store, id } = await talking();
  phone.hold(id, true);
  await settled();
  const streams = microphone();
  await new Line(id, { device: phone.device, streams, store, rtc: {} }).resume();
  assert.equal(streams.tracks[0].enabled, false);
  phone.device.leave();
});

test("a call is not placed whose user gives up while the browser makes the offer", async () => {
  const { phone, store, socket } = await attached();
  const { setLocalDescription } = FakePeerConnection.prototype;
  let make;
  const made = new Promise((resolve) => (make = resolve));
  FakePeerConnection.prototype.setLocalDescription = async function () {
    await made;
    return setLocalDescription.call(this);
  };
  phone.dial("bob");
  await settled();
  phone.hangUp(store.model.calls[0].id);
  make();
  await settled();
  FakePeerConnection.prototype.setLocalDescription = setLocalDescription;
  assert.deepEqual([socket.names(), store.model.calls, store.model.notices], [[], [], []]);
  phone.device.leave();
});

test("a user who has pulled a call in vain, and then with success, mutes the microphone that is open", async () => {
  const { phone, socket, streams } = await attached();
  const call = { callee: "bob", id: ids.a };
  const entry = { call, device: "ann-desk", user: "bob", sinceMs: epochMs };
  phone.pull(entry);
  await settled();
  socket.refuse(socket.next("pull"), 404);
  await settled();
  phone.pull(entry);
  await settled();
  socket.won(socket.next("pull"), bob);
  await settled();
  phone.line(ids.a).mute(true);
  assert.equal(streams.tracks[1].enabled, false);
  phone.device.leave();
});

test("a call is not taken that goes on in place of one that its user has ended", async () => {
  for (const rings of [false, true]) {
    const { phone, store, socket, streams } = await attached();
    const survivor = { callee: "ann", id: ids.b };
    phone.dial("bob");
    await settled();
    const place = socket.next("place");
    socket.state(place, "placed");
    await settled();
    const invite = { caller: bob, description: "v=0" };
    if (rings) socket.deliver(survivor, 1048577, { invite });
    assert.ok(socket.names().every((name) => name === "candidate"));
    socket.deliver(place.place.call, 1048580, { stop: { reason: "glare", survivor: ids.b } });
    phone.hangUp(store.model.calls[0].id);
    assert.deepEqual(streams.tracks.map(({ isOpen }) => isOpen), [false]);
    if (rings) socket.state(socket.next("decline"), "ended", { reason: "declined", by: { user: "ann", device: "ann-phone" } });
    await settled();
    socket.deliver(survivor, 1048581, { invite: { ...invite, merged: place.place.call.id } });
    socket.deliver(survivor, 1048582, { answered: { by: { user: "ann", device: "ann-phone" } } });
    socket.refuse(socket.next("decline"), 404);
    await settled();
    socket.next("hangUp");
    assert.deepEqual([streams.tracks.length, store.model.calls], [1, []]);
    phone.device.leave();
  }
});

test("who signs out hangs up", async () => {
  const { phone, socket } = await talking();
  void phone.stop();
  await settled();
  assert.deepEqual(socket.names(), ["hangUp", "detach"]);
});

test("a call that crosses one of this page rings when that one ends and does not give way", async () => {
  const { phone, store, socket } = await attached();
  phone.dial("bob");
  await settled();
  const place = socket.next("place");
  socket.state(place, "placed");
  await settled();
  phone.hangUp(place.place.call.id);
  await settled();
  socket.names();
  const invite = { caller: bob, deadlineMs: epochMs + 30_000, description: "v=0\r\na=setup:actpass\r\n" };
  socket.deliver({ callee: "ann", id: ids.a }, 1048577, { invite });
  assert.deepEqual(incoming(store.model), []);
  socket.deliver(place.place.call, 1048580, { stop: { reason: "cancelled" } });
  assert.deepEqual([incoming(store.model).map(({ id }) => id), socket.names()], [[ids.a], ["alerting"]]);
  phone.device.leave();
});

test("a push does not sign in again who has signed out", async () => {
  const serviceWorker = new EventTarget();
  Object.defineProperty(globalThis, "navigator", { configurable: true, value: { serviceWorker } });
  const { phone } = await attached();
  await phone.stop();
  const message = new Event("message");
  message.data = { callmesh: { action: "ring", call: ids.a, callee: "ann" } };
  serviceWorker.dispatchEvent(message);
  await settled();
  assert.equal(phone.device.state, "stopped");
  delete globalThis.navigator;
});
