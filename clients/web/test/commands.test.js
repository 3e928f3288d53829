// Commands: repeated under one id, given up, held back, and within limits.

import assert from "node:assert/strict";
import { test } from "node:test";
import { World, epochMs, ids, listen, named, settled } from "../testing/world.js";

const edges = ["wss://one.example", "wss://two.example"];
const bob = { user: "bob", device: "bob-phone" };
const ann = { user: "ann", device: "ann-phone" };
const toBob = { callee: "bob", id: ids.a };
const invite = { caller: ann, deadlineMs: epochMs + 30_000 };

async function placed(world, options = {}) {
  const { device, socket } = await world.attached({ edges, ...options });
  const call = device.place("bob");
  socket.state(socket.next("place"), "placed");
  await call.placed;
  return { device, socket, call, events: listen(call) };
}

/** Lets time pass on a connection that lives: pings are answered. */
async function alive(world, ms) {
  for (let left = ms; left > 0; left -= 500) {
    await world.pass(Math.min(left, 500));
    const socket = world.socket();
    for (const frame of socket.frames.filter((frame) => frame.ping && !frame.isAnswered)) {
      frame.isAnswered = true;
      socket.reply(frame, { done: {} });
    }
  }
}

const sent = (socket, name) => socket.frames.filter((frame) => name in frame);

test("a command without a reply is repeated after 7 s under its id, four times in all", async () => {
  const world = new World();
  const { device, socket } = await world.attached();
  const failed = assert.rejects(device.rules(), { code: 501, message: "No reply came." });
  await alive(world, 6500);
  assert.equal(sent(socket, "rules").length, 1);
  await alive(world, 500);
  assert.equal(sent(socket, "rules").length, 2);
  await alive(world, 21_000);
  await failed;
  const frames = sent(socket, "rules");
  assert.equal(frames.length, 4);
  assert.equal(new Set(frames.map(({ id }) => id)).size, 1);
});

test("what was lost with a connection does not count as an attempt", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges });
  void device.rules().catch(() => {});
  await alive(world, 22_000);
  assert.equal(sent(socket, "rules").length, 4);
  socket.break();
  await (await world.connecting()).attach();
  await alive(world, 22_000);
  assert.equal(sent(world.socket(), "rules").length, 4);
});

test("a refusal that asks for it is repeated, no earlier than it says", async () => {
  for (const code of [107, 500, 501, 503]) {
    const world = new World();
    const { device, socket } = await world.attached();
    const rules = device.rules();
    const first = socket.next("rules");
    socket.refuse(first, code, { retryAfterMs: 2000 });
    await world.pass(1999);
    socket.quiet();
    await world.pass(1001);
    const second = socket.next("rules");
    assert.equal(second.id, first.id);
    socket.reply(second, { rules: { changedAtMs: 0 } });
    assert.deepEqual(await rules, { changedAtMs: 0 });
  }
});

test("other refusals are final", async () => {
  for (const code of [100, 102, 106, 202, 306, 405, 415, 416, 430, 999]) {
    const world = new World();
    const { device, socket } = await world.attached();
    const failed = assert.rejects(device.rules(), { code });
    socket.refuse(socket.next("rules"), code);
    await failed;
    await world.pass(15_000);
    assert.equal(sent(socket, "rules").length, 1);
  }
});

test("an edge that says it knows no session: the device attaches anew", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges });
  const rules = device.rules();
  socket.refuse(socket.next("rules"), 104);
  assert.equal(device.state, "waiting");
  await world.pass(1000);
  await world.socket().attach();
  world.socket().reply(world.socket().next("rules"), { rules: {} });
  await rules;
});

test("replies may come in another order", async () => {
  const world = new World();
  const { device, socket } = await world.attached();
  const rules = device.rules();
  const history = device.history();
  const [first, second] = [socket.next("rules"), socket.next("history")];
  socket.reply(second, { history: { cursor: "3g", unread: 1 } });
  socket.reply(first, { rules: { firstSeconds: 10 } });
  assert.equal((await history).unread, 1);
  assert.equal((await rules).firstSeconds, 10);
  // A second reply to one of them is of no one.
  socket.reply(first, { rules: {} });
});

test("what is asked for while there is no connection waits for it", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges });
  socket.break();
  const rules = device.rules();
  await world.pass(1000);
  await world.socket().attach();
  world.socket().reply(world.socket().next("rules"), { rules: {} });
  await rules;
});

test("nothing of a call is sent before its place is answered", async () => {
  const world = new World();
  const { device, socket } = await world.attached();
  const call = device.place("bob");
  const done = Promise.all([call.sendCandidate("c1"), call.sendCandidate("c2"), call.sendDescription("v=0")]);
  const place = socket.next("place");
  socket.quiet();
  // The ringing may overtake the reply. It changes nothing of that.
  socket.deliver(toBob, 1048577, { ringing: { by: bob } });
  socket.quiet();
  socket.state(place, "ringing");
  const frames = ["candidate", "candidate", "description"].map((name) => socket.next(name));
  assert.deepEqual(frames.map(({ candidate, description }) => (candidate ?? description).body), ["c1", "c2", "v=0"]);
  for (const frame of frames) socket.reply(frame, { done: {} });
  await done;
});

test("signals keep their order when one is refused", async () => {
  const world = new World();
  const { socket, call } = await placed(world);
  for (const body of ["c1", "c2", "c3"]) void call.sendCandidate(body);
  const [first, second, third] = ["candidate", "candidate", "candidate"].map((name) => socket.next(name));
  socket.reply(first, { done: {} });
  socket.refuse(second, 501);
  socket.refuse(third, 501);
  void call.sendCandidate("c4");
  await world.pass(300);
  socket.quiet();
  await world.pass(500);
  assert.deepEqual(socket.next("candidate"), second);
  assert.deepEqual(socket.next("candidate"), third);
  assert.equal(socket.next("candidate").candidate.body, "c4");
});

test("signals keep their order when one has no reply", async () => {
  const world = new World();
  const { socket, call } = await placed(world);
  void call.sendCandidate("c1");
  await alive(world, 3000);
  void call.sendCandidate("c2");
  await alive(world, 4000);
  const bodies = sent(socket, "candidate").map(({ candidate }) => candidate.body);
  assert.deepEqual(bodies, ["c1", "c2", "c1", "c2"]);
});

test("a signal that is given up keeps none behind it", async () => {
  const world = new World();
  const { socket, call } = await placed(world);
  const first = assert.rejects(call.sendCandidate("c1"), { code: 409 });
  const second = call.sendCandidate("c2");
  socket.refuse(socket.next("candidate"), 409);
  await first;
  socket.reply(socket.next("candidate"), { done: {} });
  await second;
});

test("a place that is given up is cancelled until that is answered", async () => {
  const world = new World();
  const { device, socket } = await world.attached();
  const call = device.place("bob");
  const events = listen(call);
  const failed = assert.rejects(call.placed, { code: 501 });
  await alive(world, 28_500);
  await failed;
  assert.equal(call.end.reason, "failed");
  assert.equal(sent(socket, "place").length, 4);
  assert.equal(sent(socket, "cancel").length, 1);
  await alive(world, 40_000);
  const cancels = sent(socket, "cancel");
  assert.ok(cancels.length > 4);
  // It may be answered as if there had been no call.
  socket.refuse(cancels.at(-1), 400);
  await alive(world, 20_000);
  assert.equal(sent(socket, "cancel").length, cancels.length);
  assert.equal(named(events, "ended").length, 1);
});

test("a place that was given up and took effect after all: whoever answered is hung up on", async () => {
  const world = new World();
  const { device, socket } = await world.attached();
  const call = device.place("bob");
  void call.placed.catch(() => {});
  await alive(world, 28_500);
  socket.state(sent(socket, "cancel")[0], "answered", { by: bob });
  assert.equal(sent(socket, "hangUp").length, 1);
  assert.deepEqual(sent(socket, "hangUp")[0].hangUp.call, toBob);
});

test("a call that is cancelled before it could be placed is never placed", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges });
  socket.break();
  const call = device.place("bob");
  void call.sendCandidate("c1").catch(() => {});
  const state = await call.cancel();
  assert.equal(state.call.reason, "cancelled");
  assert.equal(call.end.reason, "cancelled");
  await assert.rejects(call.placed, { code: 501 });
  await world.pass(1000);
  await world.socket().attach();
  world.socket().quiet();
});

test("a call that is cancelled while its place was on its way: cancelled, not placed again", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges });
  const call = device.place("bob");
  socket.next("place");
  void call.cancel().catch(() => {});
  socket.quiet();
  socket.break();
  await world.pass(1000);
  await world.socket().attach();
  const cancel = world.socket().next("cancel");
  world.socket().quiet();
  assert.equal(call.end.reason, "cancelled");
  world.socket().state(cancel, "answered", { by: bob });
  world.socket().next("hangUp");
});

test("a place that finds no connection for 30 s is given up", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges });
  socket.break();
  const call = device.place("bob");
  const failed = assert.rejects(call.placed, { code: 104 });
  await world.pass(30_000);
  await failed;
  assert.equal(call.end.reason, "failed");
  assert.equal(call.end.error.code, 104);
});

test("a place without a reply is given up after 30 s without a connection, and cancelled", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges });
  const call = device.place("bob");
  const failed = assert.rejects(call.placed, { code: 501 });
  socket.next("place");
  socket.break();
  await world.pass(30_000);
  await failed;
  assert.equal(call.end.reason, "failed");
  await world.pass(15_000);
  await world.socket().attach();
  world.socket().state(world.socket().next("cancel"), "ended", { reason: "cancelled" });
  world.socket().quiet();
});

test("a transfer without a reply is given up after 30 s, and not asked for once more", async () => {
  const world = new World();
  const { socket, call } = await placed(world, { edges });
  socket.deliver(toBob, 1048578, { answered: { by: bob } });
  const failed = assert.rejects(call.transfer("carl"), { code: 501 });
  socket.next("transfer");
  socket.break();
  await world.pass(30_000);
  await failed;
  await world.pass(15_000);
  await world.socket().attach();
  world.socket().next("resume");
  world.socket().quiet();
});

test("an unanswered place is sent again after a reconnect, and no resume", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges });
  const call = device.place("bob");
  const place = socket.next("place");
  socket.break();
  await world.pass(1000);
  await world.socket().attach();
  assert.deepEqual(world.socket().next("place"), place);
  world.socket().quiet();
  world.socket().state(place, "ringing");
  assert.equal(call.state, "ringing");
});

test("a place that was to resume a live call and is refused: the call is resumed", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges });
  const call = device.place("bob");
  socket.deliver(toBob, 1048578, { ringing: { by: bob } });
  socket.break();
  await world.pass(1000);
  await world.socket().attach();
  world.socket().refuse(world.socket().next("place"), 405);
  world.socket().state(world.socket().next("resume"), "ringing");
  assert.equal(call.state, "ringing");
});

test("a hang-up is repeated for longer than other commands, and ends the call here in any case", async () => {
  const world = new World();
  const { socket, call } = await placed(world);
  socket.deliver(toBob, 1048578, { answered: { by: bob } });
  const failed = assert.rejects(call.hangUp(), { code: 501 });
  await alive(world, 60_000);
  assert.equal(call.isOver, false);
  assert.ok(sent(socket, "hangUp").length > 6);
  await alive(world, 125_000);
  await failed;
  assert.deepEqual([call.end.reason, call.end.isLocal], ["hungUp", true]);
});

test("a hang-up that finds no connection for 180 s is given up, also on a page that was frozen", async () => {
  for (const sleep of ["pass", "freeze"]) {
    const world = new World();
    const { device, socket, call } = await placed(world);
    socket.deliver(toBob, 1048578, { answered: { by: bob } });
    socket.break();
    await world.pass(0);
    const failed = assert.rejects(call.hangUp(), { code: 104 });
    if (sleep === "pass") {
      await world.pass(180_000);
    } else {
      world.time += 180_000;
      device.probe();
      await world.socket().attach();
    }
    await failed;
    assert.deepEqual([call.end.reason, call.end.isLocal], ["hungUp", true]);
    if (sleep === "freeze") world.socket().quiet();
  }
});

test("a resume is repeated until it is answered", async () => {
  const world = new World();
  const { socket, call } = await placed(world);
  socket.deliver(toBob, 1048578, { answered: { by: bob } });
  socket.break();
  await (await world.connecting()).attach();
  await alive(world, 60_000);
  const frames = sent(world.socket(), "resume");
  assert.ok(frames.length > 6);
  world.socket().state(frames[0], "ended", { reason: "hungUp", by: bob });
  assert.equal(call.end.reason, "hungUp");
});

test("a resume is not repeated for longer than the hang-up that follows it", async () => {
  const world = new World();
  const { socket, call } = await placed(world);
  socket.deliver(toBob, 1048578, { answered: { by: bob } });
  socket.break();
  await (await world.connecting()).attach();
  const failed = assert.rejects(call.hangUp(), { code: 501 });
  await alive(world, 200_000);
  await failed;
  const before = sent(world.socket(), "resume").length;
  await alive(world, 60_000);
  assert.deepEqual([call.isOver, sent(world.socket(), "resume").length], [true, before]);
});

test("what cannot be sent, and a taker of signals that fails, do not stop the device", async (t) => {
  const { reportError } = globalThis;
  t.after(() => (globalThis.reportError = reportError));
  const reported = [];
  globalThis.reportError = (error) => reported.push(error.message);
  const world = new World();
  const { device, socket, call } = await placed(world);
  call.onSignal(() => {
    throw new Error("the app's mistake");
  });
  socket.deliver(toBob, 1048578, { signal: { index: 1, kind: "candidate", body: "c" } });
  device.place("carl", { id: ids.b, headers: [{ name: "x", value: 1n }] }).placed.catch(() => {});
  assert.equal(reported.length, 2);
  socket.deliver(toBob, 1048579, { stop: { reason: "declined", by: bob } });
  assert.equal(call.state, "ended");
});

test("an answer that cannot be delivered: the call rings on, and can be answered again", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-phone" });
  socket.deliver(toBob, 1048577, { invite: { ...invite, deadlineMs: epochMs + 120_000 } });
  const [{ call }] = named(device.heard, "incoming");
  const failed = assert.rejects(call.answer("v=0"), { code: 408 });
  socket.refuse(socket.next("answer"), 408);
  await failed;
  assert.equal(call.state, "ringing");
  void call.answer("v=0");
  socket.won(socket.next("answer"), bob);
  assert.equal(call.state, "answered");
});

test("a command of a call that the cluster does not know any more ends it here", async () => {
  const world = new World();
  const { socket, call } = await placed(world);
  const failed = assert.rejects(call.hangUp(), { code: 400 });
  socket.refuse(socket.next("hangUp"), 400);
  await failed;
  assert.deepEqual([call.end.reason, call.end.isLocal], ["hungUp", true]);
});

test("48 commands are on their way at most; the others follow in their order", async () => {
  const world = new World();
  const { socket, call } = await placed(world);
  for (let index = 0; index < 100; index += 1) void call.sendCandidate(`c${index}`);
  assert.equal(sent(socket, "candidate").length, 48);
  for (let index = 0; index < 100; index += 1) socket.reply(sent(socket, "candidate")[index], { done: {} });
  assert.deepEqual(
    sent(socket, "candidate").map(({ candidate }) => candidate.body),
    Array.from({ length: 100 }, (_, index) => `c${index}`),
  );
});

test("limits: signals of a call, commands in all", async () => {
  const world = new World();
  const { device, socket, call } = await placed(world, { limits: { pendingMax: 150 } });
  const results = [];
  for (let index = 0; index < 129; index += 1) {
    call.sendCandidate(`c${index}`).catch(({ code }) => results.push(code));
  }
  await settled();
  assert.deepEqual(results, [409]);
  for (let index = 0; index < 23; index += 1) device.rules().catch(({ code }) => results.push(code));
  await settled();
  assert.deepEqual(results, [409, 107]);
  // The machine's own commands have room all the same.
  socket.break();
  await world.pass(1000);
  await world.socket().attach();
  world.socket().next("resume");
});

test("limits: calls", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ limits: { callsMax: 4, endedCallsMax: 2 } });
  for (let index = 0; index < 4; index += 1) {
    device.place("bob", { id: `00000000-0000-4000-8000-00000000000${index}` });
  }
  const refused = device.place("bob", { id: "00000000-0000-4000-8000-000000000009" });
  await assert.rejects(refused.placed, { code: 406 });
  assert.equal(refused.end.reason, "failed");
  // An ended call gives way.
  socket.state(socket.next("place"), "ended", { reason: "busy" });
  device.place("bob", { id: "00000000-0000-4000-8000-00000000000a" });
  assert.equal(device.calls.length, 4);
  assert.throws(() => device.place("bob", { id: "00000000-0000-4000-8000-00000000000a" }), { code: 401 });
});

test("ended calls are remembered within a limit", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-phone", limits: { endedCallsMax: 3 } });
  for (let index = 0; index < 9; index += 1) {
    const call = { callee: "bob", id: `00000000-0000-4000-8000-00000000000${index}` };
    socket.deliver(call, 10, { invite });
    socket.deliver(call, 11, { stop: { reason: "cancelled" } });
  }
  assert.equal(named(device.heard, "ended").length, 9);
  assert.notEqual(device.find("00000000-0000-4000-8000-000000000008"), null);
  assert.equal(device.find("00000000-0000-4000-8000-000000000001"), null);
});

test("acknowledgements: together, with the next command, at the limit at once", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-phone", limits: { acksMax: 8 } });
  const signal = (index) => ({ signal: { index, kind: "candidate", body: "c" } });
  socket.deliver(toBob, 10, { invite });
  socket.deliver(toBob, 11, signal(1));
  assert.equal(socket.acks.length, 0);
  await world.pass(100);
  assert.equal(socket.acks.length, 2);
  socket.deliver(toBob, 12, signal(2));
  void device.rules().catch(() => {});
  assert.equal(socket.acks.length, 3);
  for (let index = 3; index < 11; index += 1) socket.deliver(toBob, 10 + index, signal(index));
  assert.equal(socket.acks.length, 11);
});
