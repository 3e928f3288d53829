import assert from "node:assert/strict";
import { test } from "node:test";
import { CallMedia } from "../callmesh.js";
import { Emitter } from "../emitter.js";
import { Negotiation } from "../media-negotiation.js";
import { read, readCandidate, writtenCandidate } from "../media-sdp.js";
import { FakePeerConnection, made, stream, track } from "../testing/peer-connections.js";
import { World, epochMs, ids, named, settled } from "../testing/world.js";

const bob = { user: "bob", device: "bob-phone" };
const ann = { user: "ann", device: "ann-phone" };
const toBob = { callee: "bob", id: ids.a };
const toAnn = { callee: "ann", id: ids.b };

/** One side of a call whose signals a test passes on, so that they can cross. */
class FakeCall extends Emitter {
  state = "answered";
  isOver = false;
  description = "";
  transferredBy = null;
  caller = ann;
  sent = [];
  reported = 0;
  #take = null;
  #waiting = [];

  constructor(role) {
    super();
    this.role = role;
  }

  onSignal(take) {
    this.#take = take;
    while (take && this.#waiting.length > 0) take(this.#waiting.shift());
  }

  receive(signal) {
    if (this.#take) this.#take(signal);
    else this.#waiting.push(signal);
  }

  async sendDescription(body) {
    this.sent.push({ kind: "description", body });
  }

  async sendCandidate(body) {
    this.sent.push({ kind: "candidate", body });
  }

  async connected() {
    this.reported += 1;
  }

  answers = [];
  won = true;
  async answer(description) {
    this.answers.push(description);
    if (this.won) this.state = "answered";
    return this.won;
  }
}

const timers = () => {
  const set = new Map();
  let last = 0;
  return {
    set,
    setTimer: (callback) => (set.set(++last, callback), last),
    clearTimer: (timer) => set.delete(timer),
    fire: () => [...set.values()].forEach((callback) => callback()),
  };
};

const options = (more = {}) => ({ RTCPeerConnection: FakePeerConnection, stream: stream(track("audio")), ...more });

/** Passes on what both sides have sent. @returns whether there was anything */
async function exchange(one, other) {
  const sent = [one.sent.splice(0), other.sent.splice(0)];
  for (const signal of sent[0]) other.receive(signal);
  for (const signal of sent[1]) one.receive(signal);
  for (let turn = 0; turn < 4; turn += 1) await settled();
  return sent[0].length + sent[1].length > 0;
}

async function exchangeAll(one, other) {
  await settled();
  for (let round = 0; round < 20; round += 1) if (!(await exchange(one, other))) return;
  assert.fail("the sides negotiate without end");
}

/** Two sides whose first offer and answer are exchanged. */
async function talking(more = {}) {
  const caller = new FakeCall("caller");
  const callee = new FakeCall("callee");
  caller.state = "placing";
  callee.state = "ringing";
  const device = { place: (_, place) => ((callee.description = place.description), caller), on: () => () => {}, find: () => null };
  const one = await CallMedia.place(device, "bob", options(more));
  const other = await CallMedia.answer(callee, options());
  caller.state = "answered";
  caller.emit("answered", { description: callee.answers[0], isHere: false });
  await settled();
  await exchangeAll(caller, callee);
  return { caller, callee, one, other };
}

const stable = ({ one, other }) => {
  for (const { connection } of [one, other]) {
    assert.equal(connection.signalingState, "stable");
    assert.equal(connection.isFrozen, false, "what was agreed on was rolled back");
  }
  assert.equal(one.connection.localDescription.sdp, other.connection.remoteDescription.sdp);
  assert.equal(other.connection.localDescription.sdp, one.connection.remoteDescription.sdp);
};

test("place and answer: offer, answer, candidates both ways", async () => {
  const call = await talking();
  stable(call);
  assert.equal(call.one.connection.candidates.length, 1);
  assert.equal(call.other.connection.candidates.length, 1);
  assert.match(call.callee.answers[0], /a=setup:active/);
});

test("connected is reported when media flow, once", async () => {
  const { caller, one } = await talking();
  one.connection.become("connecting");
  assert.equal(caller.reported, 0);
  one.connection.become("connected");
  one.connection.become("disconnected");
  one.connection.become("connected");
  assert.equal(caller.reported, 1);
});

test("candidates of before the call are kept for it", async () => {
  const caller = new FakeCall("caller");
  caller.state = "placing";
  let place;
  const device = { place: () => caller, on: () => () => {} };
  const media = new CallMedia(options());
  media._send("early");
  place = await CallMedia.place(device, "bob", options());
  await settled();
  assert.equal(caller.sent.length, 1);
  place.close();
  media.close();
});

test("nothing of the caller's is used before this device has won", async () => {
  const callee = new FakeCall("callee");
  callee.state = "ringing";
  callee.description = "v=0\r\no=- 77 2 IN IP4 1\r\na=ice-ufrag:u77\r\na=setup:actpass\r\n";
  let decide;
  callee.answer = () => new Promise((resolve) => (decide = resolve));
  callee.receive({ kind: "candidate", body: '{"candidate":"c","sdpMid":"0"}' });
  const answering = CallMedia.answer(callee, options());
  await settled();
  const connection = made.at(-1);
  assert.deepEqual(connection.candidates, []);
  callee.state = "answered";
  decide(true);
  const media = await answering;
  await settled();
  assert.equal(connection.candidates.length, 1);
  assert.equal(media.connection, connection);
});

test("the first description has all that was needed before, and candidates wait until the call is answered", async () => {
  const connection = new FakePeerConnection();
  const sent = [];
  const port = { isCallee: () => false, sendDescription: async (text) => sent.push(text), sendCandidate: () => {}, failed: assert.fail };
  const negotiation = new Negotiation(connection, port);
  connection.addTrack(track("audio"));
  await settled();
  await negotiation.first();
  await negotiation.takeDescription("v=0\r\no=- 3 2 IN IP4 1\r\na=ice-ufrag:u3\r\na=setup:active\r\n");
  await negotiation.takeCandidate('{"candidate":"c","usernameFragment":"u3"}');
  assert.deepEqual(connection.candidates, []);
  negotiation.isOpen = true;
  await negotiation.open();
  await settled();
  assert.equal(connection.candidates.length, 1);
  assert.deepEqual(sent, []);
  connection.addTrack(track("video"));
  await settled();
  assert.equal(sent.length, 1);
});

test("nothing is sent of a call that its user gives up before the first description is made", async () => {
  const callee = new FakeCall("callee");
  callee.description = "v=0\r\no=- 77 2 IN IP4 1\r\na=ice-ufrag:u77\r\na=setup:actpass\r\n";
  const device = { place: assert.fail, pull: assert.fail };
  const beginnings = [
    (more) => CallMedia.place(device, "bob", more),
    (more) => CallMedia.answer(callee, more),
    (more) => CallMedia.pull(device, {}, more),
  ];
  for (const begin of beginnings) {
    const giving = new AbortController();
    const beginning = begin(options({ signal: giving.signal }));
    giving.abort("no longer");
    await assert.rejects(beginning, (reason) => reason === "no longer");
    assert.equal(made.at(-1).signalingState, "closed");
  }
  assert.deepEqual(callee.answers, []);
});

test("an answer that has not won leaves nothing behind", async () => {
  const callee = new FakeCall("callee");
  callee.state = "ringing";
  callee.won = false;
  assert.equal(await CallMedia.answer(callee, options()), null);
  assert.equal(made.at(-1).signalingState, "closed");
  callee.answer = async () => {
    throw new Error("over");
  };
  await assert.rejects(CallMedia.answer(callee, options()), /over/);
  assert.equal(made.at(-1).signalingState, "closed");
});

test("a camera goes on and off", async () => {
  const call = await talking();
  const camera = track("video");
  await call.one.setTrack(camera);
  await settled();
  await exchangeAll(call.caller, call.callee);
  stable(call);
  assert.match(call.other.connection.remoteDescription.sdp, /a=kinds:audio,video/);
  // Another camera needs no new description.
  await call.one.setTrack(track("video", "other"));
  await settled();
  assert.deepEqual(call.caller.sent, []);
  call.one.removeTrack("video");
  await settled();
  await exchangeAll(call.caller, call.callee);
  stable(call);
  assert.match(call.other.connection.remoteDescription.sdp, /a=kinds:audio,none/);
});

test("a camera that goes on again and again does not make descriptions longer", async () => {
  const call = await talking();
  for (let round = 0; round < 5; round += 1) {
    await call.one.setTrack(track("video"));
    await settled();
    await exchangeAll(call.caller, call.callee);
    call.one.removeTrack("video");
    await settled();
    await exchangeAll(call.caller, call.callee);
  }
  stable(call);
  assert.equal(call.one.connection.getSenders().length, 2);
});

test("an offer that is too long is taken back", async () => {
  const call = await talking();
  call.caller.sendDescription = () => {
    throw new Error("too long");
  };
  await call.one.setTrack(track("video"));
  await settled();
  assert.equal(call.one.connection.signalingState, "stable");
});

test("after an offer that could not be sent the next change is offered, and what was left with it", async () => {
  for (const change of [(media) => media.restartIce(), (media) => media.removeTrack("video")]) {
    const call = await talking();
    const { sendDescription } = call.caller;
    call.caller.sendDescription = () => {
      throw new Error("too long");
    };
    await call.one.setTrack(track("video"));
    await settled();
    call.caller.sendDescription = sendDescription;
    await change(call.one);
    await settled();
    assert.ok(call.caller.sent.some(({ kind }) => kind === "description"));
    await exchangeAll(call.caller, call.callee);
    stable(call);
  }
});

test("descriptions that cross: both changes are in force in the end", async () => {
  const call = await talking();
  void call.one.setTrack(track("video"));
  void call.other.setTrack(track("video"));
  await settled();
  assert.equal(call.caller.sent.filter(({ kind }) => kind === "description").length, 1);
  assert.equal(call.callee.sent.filter(({ kind }) => kind === "description").length, 1);
  await exchangeAll(call.caller, call.callee);
  stable(call);
  for (const { connection } of [call.one, call.other]) {
    assert.match(connection.localDescription.sdp, /a=kinds:audio,video/);
  }
});

test("the same, with ICE restarts on both sides, a hundred times", async () => {
  for (let round = 0; round < 100; round += 1) {
    const call = await talking();
    if (round % 3 !== 1) call.one.restartIce();
    if (round % 3 !== 2) call.other.restartIce();
    if (round % 2) await settled();
    if (round % 5 === 0) void call.other.setTrack(track("video"));
    await exchangeAll(call.caller, call.callee);
    stable(call);
  }
});

test("a camera that goes on while the answer is on its way is offered behind it", async () => {
  const callee = new FakeCall("callee");
  callee.state = "ringing";
  callee.description = "v=0\r\no=- 77 2 IN IP4 1\r\na=setup:actpass\r\n";
  let decide;
  callee.answer = () => new Promise((resolve) => (decide = resolve));
  const answering = CallMedia.answer(callee, options());
  await settled();
  made.at(-1).addTrack(track("video"));
  await settled();
  assert.equal(callee.sent.filter(({ kind }) => kind === "description").length, 0);
  callee.state = "answered";
  decide(true);
  await answering;
  await settled();
  assert.equal(callee.sent.filter(({ kind }) => kind === "description").length, 1);
});

test("a lost network: ICE restarts after 4 s, at once where it has failed, and not without end", async () => {
  const clock = timers();
  const call = await talking({ environment: clock });
  const { one } = call;
  one.connection.become("connected");
  one.connection.become("disconnected");
  assert.equal(clock.set.size, 1);
  one.connection.become("connected");
  assert.equal(clock.set.size, 0);
  one.connection.become("disconnected");
  clock.fire();
  assert.equal(one.connection.isRestarting, true);
  await settled();
  await exchangeAll(call.caller, call.callee);
  stable(call);
  let failures = 0;
  one.on("failed", () => (failures += 1));
  for (let attempt = 0; attempt < 5; attempt += 1) one.connection.become("failed");
  assert.equal(failures, 1);
  // A connection that came back counts anew.
  one.connection.become("connected");
  one.connection.become("failed");
  assert.equal(failures, 1);
});

test("the configuration may be a function: it is asked for each connection and each restart", async () => {
  let asked = 0;
  const call = await talking({ rtc: () => ({ iceServers: [{ urls: `turn:${++asked}` }] }) });
  const connection = call.one.connection;
  const before = connection.configuration.iceServers[0].urls;
  call.one.restartIce();
  assert.notEqual(connection.configuration.iceServers[0].urls, before);
  assert.equal(connection.isRestarting, true);
});

test("another network restarts ICE, before the answer not", async () => {
  const environment = new EventTarget();
  environment.navigator = { connection: new EventTarget() };
  const call = await talking({ environment });
  environment.navigator.connection.dispatchEvent(new Event("change"));
  assert.equal(call.one.connection.isRestarting, true);
  await settled();
  await exchangeAll(call.caller, call.callee);
  call.one.close();
  environment.dispatchEvent(new Event("online"));

  const early = new CallMedia(options({ environment }));
  environment.dispatchEvent(new Event("online"));
  assert.equal(early.connection.isRestarting, false);
  early.close();
});

test("the call moves: a new connection answers the other device's offer", async () => {
  const call = await talking();
  const { caller, one } = call;
  const former = one.connection;
  one.connection.become("connected");
  caller.sent = [];
  caller.emit("moved", { description: "v=0\r\no=- 900 2 IN IP4 1\r\na=ice-ufrag:u900\r\na=setup:actpass\r\n" });
  await settled();
  assert.notEqual(one.connection, former);
  assert.equal(former.signalingState, "closed");
  assert.match(caller.sent[0].body, /a=setup:active/);
  // A candidate of the former device is of no use, and no harm.
  caller.receive({ kind: "candidate", body: '{"candidate":"old","usernameFragment":"u1"}' });
  caller.receive({ kind: "candidate", body: '{"candidate":"new","usernameFragment":"u900"}' });
  await settled();
  assert.deepEqual(one.connection.candidates.map(({ candidate }) => candidate), ["new"]);
  one.connection.become("connected");
  assert.equal(caller.reported, 2);
  // So is an answer of the former device.
  caller.receive({ kind: "description", body: "v=0\r\no=- 1 2 IN IP4 1\r\na=setup:active\r\n" });
  await settled();
  assert.equal(one.connection.signalingState, "stable");
});

test("the call moves without a description: this side offers", async () => {
  const { caller, one } = await talking();
  caller.sent = [];
  caller.emit("moved", { description: "" });
  await settled();
  assert.match(caller.sent[0].body, /a=setup:actpass/);
  assert.equal(one.connection.signalingState, "have-local-offer");
});

test("a call that was transferred here is answered with an offer", async () => {
  const callee = new FakeCall("callee");
  callee.state = "ringing";
  callee.transferredBy = bob;
  const media = await CallMedia.answer(callee, options());
  assert.match(callee.answers[0], /a=setup:actpass/);
  callee.receive({ kind: "description", body: "v=0\r\no=- 5 2 IN IP4 1\r\na=setup:passive\r\n" });
  await settled();
  assert.equal(media.connection.signalingState, "stable");
});

test("a call of the app's server is answered without a description, and moved brings the offer", async () => {
  const callee = new FakeCall("callee");
  callee.state = "ringing";
  callee.caller = { user: "desk" };
  await CallMedia.answer(callee, options());
  assert.deepEqual(callee.answers, [""]);
  callee.emit("moved", { description: "v=0\r\no=- 6 2 IN IP4 1\r\na=setup:actpass\r\n" });
  await settled();
  assert.match(callee.sent.find(({ kind }) => kind === "description").body, /a=setup:active/);
});

test("the other side's page was loaded anew: its offer begins a new connection here", async () => {
  const { caller, one } = await talking();
  const former = one.connection;
  caller.sent = [];
  caller.receive({ kind: "description", body: "v=0\r\no=- 901 2 IN IP4 1\r\na=setup:actpass\r\n" });
  await settled();
  assert.notEqual(one.connection, former);
  assert.equal(one.connection.signalingState, "stable");
  assert.equal(caller.sent.filter(({ kind }) => kind === "description").length, 1);
});

test("this side's page was loaded anew: it offers", async () => {
  const caller = new FakeCall("caller");
  const media = await CallMedia.resume(caller, options());
  await settled();
  assert.match(caller.sent[0].body, /a=setup:actpass/);
  media.close();
});

test("an offer that cannot be delivered is taken back", async () => {
  const { caller, one } = await talking();
  const errors = [];
  one.on("error", ({ error }) => errors.push(error.code));
  caller.sendDescription = async () => {
    throw new Error("too large");
  };
  void one.setTrack(track("video"));
  await settled();
  await settled();
  assert.ok(errors.includes(904));
  caller.sendDescription = async () => {};
});

test("the end of the call ends the media", async () => {
  const { caller, one } = await talking();
  const { connection } = one;
  caller.emit("ended", { reason: "hungUp", survivor: null });
  assert.equal(connection.signalingState, "closed");
  assert.equal(one.connection, null);
  one.restartIce();
  caller.receive({ kind: "description", body: "v=0" });
  await settled();
});

test("pull: an offer, and the other side's answer", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-tablet" });
  const pulling = CallMedia.pull(device, { call: toBob, device: "bob-phone" }, options());
  await settled();
  const frame = socket.next("pull");
  assert.match(frame.pull.description, /a=setup:actpass/);
  socket.won(frame, { user: "bob", device: "bob-tablet" });
  const media = await pulling;
  socket.deliver(toBob, 1048583, { signal: { index: 1, kind: "description", body: "v=0\r\no=- 8 2 IN IP4 1\r\na=setup:active\r\n" } });
  await settled();
  assert.equal(media.connection.signalingState, "stable");
  const late = CallMedia.pull(device, { call: toAnn, device: "bob-phone" }, options());
  await settled();
  socket.names();
  const request = socket.frames.findLast(({ pull }) => pull);
  socket.reply(request, { answer: { won: false, call: { call: toAnn, phase: "ended" } } });
  assert.equal(await late, null);
});

test("crossing calls: the media follow the call that goes on", async () => {
  for (const isInvitedFirst of [true, false]) {
    const world = new World();
    const { device, socket } = await world.attached({ device: "bob-phone" });
    world.nextIds = [ids.b];
    const media = await CallMedia.place(device, "ann", options());
    socket.state(socket.next("place"), "placed");
    const offer = "v=0\r\no=- 70 2 IN IP4 1\r\na=ice-ufrag:u70\r\na=setup:actpass\r\n";
    const invite = () => socket.deliver(toBob, 1048577, { invite: { caller: ann, deadlineMs: epochMs + 30_000, description: offer } });
    if (isInvitedFirst) invite();
    socket.deliver(toAnn, 1048578, { stop: { reason: "glare", by: ann, survivor: ids.a } });
    if (!isInvitedFirst) invite();
    socket.deliver(toBob, 1048579, { signal: { index: 1, kind: "candidate", body: '{"candidate":"c","usernameFragment":"u70"}' } });
    socket.deliver(toBob, 1048581, { answered: { by: bob } });
    for (let turn = 0; turn < 4; turn += 1) await settled();
    assert.equal(media.call.id, ids.a);
    assert.equal(media.connection.signalingState, "stable");
    assert.equal(media.connection.candidates.length, 1);
    const sent = socket.frames.find((frame) => frame.description);
    assert.deepEqual(sent.description.call, toBob);
    assert.match(sent.description.body, /a=setup:active/);
    media.connection.become("connected");
    assert.ok(socket.frames.some((frame) => frame.connected?.call.id === ids.a));
  }
});

test("crossing calls: a call back to one that had left for others", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-phone" });
  const invite = { caller: ann, deadlineMs: epochMs + 30_000, description: "v=0\r\no=- 70 2 IN IP4 1\r\na=setup:actpass\r\n" };
  socket.deliver(toBob, 1048577, { invite });
  socket.deliver(toBob, 1048578, { stop: { reason: "unanswered", missed: true } });
  world.nextIds = [ids.b];
  const media = await CallMedia.place(device, "ann", options());
  socket.state(socket.next("place"), "placed");
  socket.deliver(toAnn, 1048578, { stop: { reason: "glare", by: ann, survivor: ids.a } });
  await settled();
  assert.equal(media.call.id, ids.b);
  socket.deliver(toBob, 1048580, { invite: { ...invite, merged: ids.b } });
  socket.deliver(toBob, 1048581, { answered: { by: bob } });
  for (let turn = 0; turn < 4; turn += 1) await settled();
  assert.deepEqual([media.call.id, media.call.state], [ids.a, "answered"]);
  assert.equal(media.connection.signalingState, "stable");
});

test("crossing calls: the one that goes on has ended meanwhile", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-phone" });
  world.nextIds = [ids.b];
  const media = await CallMedia.place(device, "ann", options());
  socket.state(socket.next("place"), "placed");
  socket.deliver(toBob, 1048577, { invite: { caller: ann, deadlineMs: epochMs + 30_000, description: "" } });
  socket.deliver(toAnn, 1048578, { stop: { reason: "glare", by: ann, survivor: ids.a } });
  socket.deliver(toBob, 1048579, { stop: { reason: "cancelled", by: ann } });
  await settled();
  assert.equal(media.connection, null);
});

test("crossing calls: the other side answers this side's first offer by a description", async () => {
  const world = new World();
  const { device, socket } = await world.attached();
  const media = await CallMedia.place(device, "bob", options());
  socket.state(socket.next("place"), "placed");
  socket.deliver(toBob, 1048579, { answered: { by: bob } });
  socket.deliver(toBob, 1048580, { signal: { index: 1, kind: "candidate", body: '{"candidate":"c"}' } });
  socket.deliver(toBob, 1048581, { signal: { index: 2, kind: "description", body: "v=0\r\no=- 9 2 IN IP4 1\r\na=setup:active\r\n" } });
  for (let turn = 0; turn < 4; turn += 1) await settled();
  assert.equal(media.connection.signalingState, "stable");
  assert.equal(media.connection.candidates.length, 1);
});

test("a call that is refused ends its media", async () => {
  const world = new World();
  const { device, socket } = await world.attached();
  const media = await CallMedia.place(device, "bob", options());
  socket.refuse(socket.next("place"), 420);
  await settled();
  assert.equal(media.connection, null);
  assert.equal(named(device.heard, "ended")[0].call, media.call);
});

test("descriptions and candidates of other clients", () => {
  assert.equal(read("a=setup:actpass", "stable").type, "offer");
  assert.equal(read("a=setup:actpass", "have-local-offer").type, "offer");
  assert.equal(read("v=0\r\na=setup:passive\r\n", "have-local-offer").type, "answer");
  assert.equal(read("v=0", "stable").type, "offer");
  assert.equal(read("v=0", "have-local-offer").type, "answer");
  assert.deepEqual(read('{"type":"answer","sdp":"v=0"}', "stable"), { type: "answer", sdp: "v=0" });
  assert.equal(read("{nonsense", "stable").type, "offer");
  assert.equal(readCandidate(""), null);
  assert.equal(readCandidate("{nonsense"), undefined);
  assert.equal(readCandidate('{"candidate":"c","sdpMid":"0"}').sdpMid, "0");
  assert.equal(readCandidate("a=candidate:1 1 udp").candidate, "candidate:1 1 udp");
  assert.equal(writtenCandidate(null), "");
});

test("another network after as many restarts as one network gets", async () => {
  const environment = Object.assign(new EventTarget(), { setTimer: () => 1, clearTimer() {} });
  const world = new World();
  const { device, socket } = await world.attached();
  const media = await CallMedia.place(device, "bob", options({ environment }));
  socket.state(socket.next("place"), "placed");
  socket.deliver(socket.frames.findLast(({ place }) => place).place.call, 1048580, { answered: { by: bob, description: "" } });
  for (let turn = 0; turn < 4; turn += 1) await settled();
  let [failed, restarts] = [0, 0];
  media.on("failed", () => (failed += 1));
  media.connection.restartIce = () => (restarts += 1);
  for (let time = 0; time < 6; time += 1) media.connection.become("failed");
  assert.deepEqual([failed, restarts], [1, 5]);
  environment.dispatchEvent(new Event("online"));
  assert.deepEqual([failed, restarts], [1, 6]);
});
