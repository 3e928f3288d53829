// Calls that change hands: pulled, transferred, crossing; and calls that a push announced.

import assert from "node:assert/strict";
import { test } from "node:test";
import { World, epochMs, ids, listen, named, settled } from "../testing/world.js";

const edges = ["wss://one.example", "wss://two.example"];
const bob = { user: "bob", device: "bob-phone" };
const tablet = { user: "bob", device: "bob-tablet" };
const carl = { user: "carl", device: "carl-phone" };
const ann = { user: "ann", device: "ann-phone" };
const toBob = { callee: "bob", id: ids.a };
const toAnn = { callee: "ann", id: ids.b };
const invite = { caller: ann, deadlineMs: epochMs + 30_000, description: "v=0 offer" };

async function answered(world, options = {}) {
  const { device, socket } = await world.attached({ device: "bob-phone", edges, ...options });
  socket.deliver(toBob, 1048577, { invite });
  const [{ call }] = named(device.heard, "incoming");
  void call.answer("v=0 answer");
  socket.won(socket.next("answer"), bob);
  return { device, socket, call, events: listen(call) };
}

async function placedAndAnswered(world) {
  const { device, socket } = await world.attached({ edges });
  const call = device.place("bob", { description: "v=0 offer" });
  socket.state(socket.next("place"), "placed");
  socket.deliver(toBob, 1048578, { answered: { by: bob, description: "v=0 answer" } });
  const connected = call.connected();
  socket.reply(socket.next("connected"), { done: {} });
  await connected;
  return { device, socket, call, events: listen(call) };
}

test("pull: the tablet has the call, and hears the other side", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-tablet", ongoing: true });
  // The tablet rang before, and lost.
  socket.deliver(toBob, 1048577, { invite });
  socket.deliver(toBob, 1048578, { stop: { reason: "answeredElsewhere", by: bob } });
  const entry = { call: toBob, placed: false, device: "bob-phone", user: "ann", name: "Ann Lee", sinceMs: epochMs };
  socket.say({ ongoing: { version: 3, calls: [entry] } });
  const pulled = device.pull(device.ongoing[0], "v=0 tablet's offer");
  const frame = socket.next("pull");
  assert.deepEqual(frame.pull, { call: toBob, from: "bob-phone", description: "v=0 tablet's offer" });
  // A delivery before the reply is of a call that the tablet does not have yet.
  socket.deliver(toBob, 1048583, { signal: { index: 4, kind: "description", body: "v=0 early" } });
  socket.won(frame, tablet, { version: 1048582 });
  const call = await pulled;
  assert.equal(call.state, "answered");
  assert.equal(call.role, "callee");
  assert.equal(call.peer.name, "Ann Lee");
  assert.equal(named(device.heard, "taken")[0].call, call);
  const events = listen(call);
  // The stop of its former part is late: the tablet has the call.
  socket.deliver(toBob, 1048580, { stop: { reason: "answeredElsewhere", by: bob } });
  socket.deliver(toBob, 1048583, { signal: { index: 4, kind: "description", body: "v=0 early" } });
  assert.deepEqual(events.map(({ type }) => type), ["description"]);
  await world.pass(200);
  assert.equal(socket.acks.filter(({ version }) => version === 1048583).length, 1);
});

test("pull: back from another device, before or after the stop of the first move is here", async () => {
  for (const isKnown of [true, false]) {
    const world = new World();
    const { device, socket, call } = await answered(world);
    if (isKnown) {
      // The reply to a command says that the call is over here. The stop itself is late.
      void call.connected();
      socket.state(socket.next("connected"), "ended", { reason: "moved", by: tablet, version: 1048584 });
      assert.equal(call.end.reason, "moved");
    }
    const pulled = device.pull({ call: toBob, device: "bob-tablet", user: "ann" }, "v=0");
    socket.won(socket.next("pull"), bob, { version: 1048590 });
    const back = await pulled;
    assert.equal(back === call, !isKnown);
    socket.deliver(toBob, 1048583, { stop: { reason: "moved", by: tablet } });
    assert.equal(back.state, "answered");
    socket.deliver(toBob, 1048591, { stop: { reason: "moved", by: tablet } });
    assert.equal(back.end.reason, "moved");
  }
});

test("pull: another device was faster", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-tablet" });
  const pulled = device.pull({ call: toBob, device: "bob-phone" });
  const state = { call: toBob, phase: "ended", version: 1048590, reason: "answeredElsewhere" };
  socket.reply(socket.next("pull"), { answer: { won: false, call: state } });
  assert.equal(await pulled, null);
  assert.deepEqual(device.calls, []);
});

test("pull of the caller's side: the device resumes it after a break", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "ann-tablet", edges }, { user: "ann" });
  const pulled = device.pull({ call: toBob, device: "ann-phone", user: "bob" });
  socket.won(socket.next("pull"), bob);
  const call = await pulled;
  assert.equal(call.role, "caller");
  assert.deepEqual(call.peer, bob);
  socket.break();
  await world.pass(1000);
  await world.socket().attach({ user: "ann", device: "ann-tablet" });
  world.socket().next("resume");
});

test("pulled from: the device that had the call stops", async () => {
  const world = new World();
  const { socket, call } = await answered(world);
  socket.deliver(toBob, 1048583, { stop: { reason: "moved", by: tablet } });
  assert.equal(call.state, "ended");
  assert.deepEqual([call.end.reason, call.end.by], ["moved", tablet]);
});

test("the other side gets moved, once for each number, and reports connected anew", async () => {
  const world = new World();
  const { socket, call, events } = await placedAndAnswered(world);
  const moved = { to: tablet, description: "v=0 tablet's offer", number: 1 };
  socket.deliver(toBob, 1048583, { moved });
  socket.deliver(toBob, 1048584, { moved });
  assert.deepEqual(events, [{ type: "moved", to: tablet, description: "v=0 tablet's offer" }]);
  assert.equal(call.state, "answered");
  assert.deepEqual(call.peer, tablet);
  const connected = call.connected();
  socket.reply(socket.next("connected"), { done: {} });
  await connected;
  assert.equal(call.state, "connected");
  // Its signals go on counting above those of the former device.
  socket.deliver(toBob, 1048585, { signal: { index: 9, kind: "candidate", body: "c" } });
  assert.equal(events.at(-1).type, "candidate");
  await world.pass(200);
  assert.equal(socket.acks.filter(({ version }) => version === 1048584).length, 1);
});

test("a connected that was on its way when the call moved does not count", async () => {
  const world = new World();
  const { device, socket } = await world.attached();
  const call = device.place("bob");
  socket.state(socket.next("place"), "placed");
  socket.deliver(toBob, 1048578, { answered: { by: bob } });
  const connected = call.connected();
  socket.deliver(toBob, 1048583, { moved: { to: tablet, number: 1 } });
  socket.reply(socket.next("connected"), { done: {} });
  await connected;
  assert.equal(call.state, "answered");
});

test("transfer: blind, and what becomes of it", async () => {
  const world = new World();
  const { socket, call, events } = await answered(world);
  const asked = call.transfer("carl");
  const frame = socket.next("transfer");
  assert.deepEqual(frame.transfer, { call: toBob, to: "carl" });
  socket.state(frame, "answered", { by: bob });
  await asked;
  socket.deliver(toBob, 1048583, { transfer: { to: "carl", number: 1, by: carl } });
  socket.deliver(toBob, 1048584, { transfer: { to: "carl", number: 1, reason: "unanswered" } });
  socket.deliver(toBob, 1048585, { transfer: { to: "carl", number: 1, reason: "unanswered" } });
  assert.equal(call.state, "answered");
  assert.deepEqual(events, [
    { type: "transfer", to: "carl", by: carl, reason: null },
    { type: "transfer", to: "carl", by: null, reason: "unanswered" },
  ]);
  const back = call.cancelTransfer();
  socket.state(socket.next("cancelTransfer"), "answered");
  await back;
  socket.deliver(toBob, 1048586, { stop: { reason: "transferred", by: carl } });
  assert.equal(call.end.reason, "transferred");
});

test("transfer after consultation names the device and the call", async () => {
  const world = new World();
  const { device, socket, call } = await answered(world);
  const consultation = device.place("carl", { id: ids.b });
  socket.state(socket.next("place"), "placed");
  void call.transfer("carl", { device: "carl-phone", consulted: consultation });
  assert.deepEqual(socket.next("transfer").transfer, {
    call: toBob,
    to: "carl",
    device: "carl-phone",
    consulted: { callee: "carl", id: ids.b },
  });
});

test("a call that is transferred to this device: an offer, and the side that it gets", async () => {
  for (const [by, role] of [
    [carl, "callee"],
    [bob, "caller"],
  ]) {
    const world = new World();
    const { device, socket } = await world.attached({ device: "carl-phone", edges });
    const more = { caller: ann, description: undefined, transferredBy: bob };
    socket.deliver(toBob, 1048579, { invite: { ...invite, ...more } });
    const [{ call }] = named(device.heard, "incoming");
    assert.deepEqual(call.transferredBy, bob);
    assert.equal(call.description, "");
    const won = call.answer("v=0 Carl's offer");
    const frame = socket.next("answer");
    assert.deepEqual(frame.answer.call, toBob);
    socket.won(frame, by);
    assert.equal(await won, true);
    assert.equal(call.role, role);
    socket.break();
    await world.pass(1000);
    await world.socket().attach({ user: "carl", device: "carl-phone" });
    assert.deepEqual(world.socket().names(), role === "caller" ? ["resume"] : []);
  }
});

test("a call that was over rings again for a transfer, and only for a newer one", async () => {
  const world = new World();
  const { device, socket, call } = await answered(world);
  const again = { ...invite, transferredBy: carl };
  socket.deliver(toBob, 1048590, { stop: { reason: "transferred", by: carl } });
  socket.deliver(toBob, 1048589, { invite: again });
  assert.equal(named(device.heard, "incoming").length, 1);
  socket.deliver(toBob, 1048591, { invite });
  assert.equal(named(device.heard, "incoming").length, 1, "only a transfer begins anew");
  socket.deliver(toBob, 1048592, { invite: again });
  const anew = named(device.heard, "incoming")[1].call;
  assert.notEqual(anew, call);
  assert.equal(anew.state, "ringing");
  assert.equal(call.state, "ended");
  socket.deliver(toBob, 1048593, { signal: { index: 1, kind: "candidate", body: "c" } });
  socket.deliver(toBob, 1048594, { stop: { reason: "cancelled", missed: true } });
  assert.equal(anew.end.reason, "cancelled");
});

test("a device that rang for a side of a call of the app's server rings for the other one", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-phone", edges });
  socket.deliver(toBob, 1048577, { invite: { ...invite, caller: { user: "dora", device: "" } } });
  const first = named(device.heard, "incoming")[0].call;
  socket.deliver(toBob, 1048578, { stop: { reason: "answeredElsewhere", by: carl } });
  socket.deliver(toBob, 1048579, { invite: { ...invite, caller: carl, secondSide: true } });
  const second = named(device.heard, "incoming")[1].call;
  assert.deepEqual([first.state, second.state, second.peer], ["lost", "ringing", carl]);
});

test("a device that lacks the stop of an earlier ringing rings anew", async () => {
  for (const more of [{ secondSide: true }, { transferredBy: bob }]) {
    const world = new World();
    const { device, socket } = await world.attached({ device: "bob-phone", edges });
    socket.deliver(toBob, 1048577, { invite: { ...invite, caller: { user: "dora", device: "" } } });
    const again = { ...invite, caller: carl, ...more };
    for (const version of [1048579, 1048579, 1048580]) socket.deliver(toBob, version, { invite: again });
    const calls = named(device.heard, "incoming").map(({ call }) => call);
    assert.deepEqual(
      calls.map(({ state }) => state),
      ["lost", "ringing"],
    );
    assert.deepEqual(calls[1].peer, carl);
    assert.equal(calls[1].isSecondSide, !!more.secondSide);
    socket.deliver(toBob, 1048578, { stop: { reason: "answeredElsewhere", by: carl } });
    assert.equal(calls[1].state, "ringing");
  }
});

test("a late reply about an earlier ringing does not end the present one", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-phone", edges });
  socket.deliver(toBob, 1048577, { invite });
  const [{ call }] = named(device.heard, "incoming");
  void call.answer("v=0 answer");
  const answer = socket.next("answer");
  socket.deliver(toBob, 1048578, { stop: { reason: "answeredElsewhere", by: tablet } });
  socket.deliver(toBob, 1048580, { invite: { ...invite, transferredBy: tablet } });
  const ended = { call: toBob, phase: "ended", version: 1048578, reason: "answeredElsewhere", by: tablet };
  socket.reply(answer, { answer: { won: false, call: ended } });
  assert.equal(named(device.heard, "incoming")[1].call.state, "ringing");
});

test("a transfer back to a device that lacks the stop", async () => {
  const world = new World();
  const { device, socket, call } = await answered(world);
  socket.deliver(toBob, 1048592, { invite: { ...invite, transferredBy: carl } });
  assert.equal(call.end.reason, "transferred");
  assert.equal(named(device.heard, "incoming").length, 2);
});

test("a transfer back that nobody took, to a device that lacks the stop and the invite", async () => {
  for (const reason of ["cancelled", "unanswered", "declined", "answeredElsewhere"]) {
    const world = new World();
    const { device, socket, call, events } = await answered(world);
    socket.deliver(toBob, 1048580, { stop: { reason, by: ann } });
    assert.equal(call.state, "answered", "not newer than its answer");
    socket.deliver(toBob, 1048595, { stop: { reason, by: ann } });
    assert.deepEqual([call.state, call.end.reason], ["ended", "transferred"]);
    socket.deliver(toBob, 1048592, { invite: { ...invite, transferredBy: carl } });
    assert.equal(named(device.heard, "incoming").length, 1, "that ringing is over");
    assert.equal(named(events, "ended").length, 1);
  }
});

test("the same, by the reply to a command", async () => {
  const world = new World();
  const { socket, call } = await answered(world);
  void call.connected();
  socket.state(socket.next("connected"), "ended", { reason: "cancelled", by: ann, version: 1048595 });
  assert.deepEqual([call.state, call.end.reason], ["ended", "transferred"]);
});

test("consulted stands only where this device was asked in that call, by that user", async () => {
  for (const [consulted, transferredBy, isKept] of [
    [toBob, ann, true],
    [toBob, carl, false],
    [{ callee: "bob", id: ids.c }, ann, false],
    ["nonsense", ann, false],
  ]) {
    const world = new World();
    const { device, socket } = await answered(world);
    const call = { callee: "dora", id: ids.b };
    socket.deliver(call, 1048579, {
      invite: { caller: { user: "dora", device: "d" }, deadlineMs: epochMs + 40_000, transferredBy, consulted },
    });
    const incoming = named(device.heard, "incoming")[1].call;
    assert.deepEqual(incoming.consulted, isKept ? toBob : null);
  }
});

test("consulted does not stand while that call only rings", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-phone" });
  socket.deliver(toBob, 1048577, { invite });
  socket.deliver({ callee: "dora", id: ids.b }, 5, { invite: { ...invite, transferredBy: ann, consulted: toBob } });
  assert.equal(named(device.heard, "incoming")[1].call.consulted, null);
});

test("the consulted call ends with a survivor", async () => {
  const world = new World();
  const { socket, call } = await answered(world);
  socket.deliver(toBob, 1048590, { stop: { reason: "transferred", by: ann, survivor: ids.b } });
  assert.equal(call.end.survivor, ids.b);
});

test("answered in a notification while it rings: a later ringing of the call waits for the user", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-phone" });
  socket.deliver(toBob, 1048577, { invite });
  const [{ call }] = named(device.heard, "incoming");
  device.wake({ ...toBob, isWanted: true });
  void call.answer("v=0 answer");
  socket.won(socket.next("answer"), bob);
  await settled();
  const carl = { user: "carl", device: "carl-phone" };
  socket.deliver(toBob, 1048590, { stop: { reason: "transferred", by: carl } });
  socket.deliver(toBob, 1048600, { invite: { ...invite, transferredBy: carl } });
  assert.deepEqual([call.isWanted, named(device.heard, "incoming")[1].call.isWanted], [true, false]);
});

test("crossing calls: this side's gives way to the other one", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-phone" });
  const own = device.place("ann", { id: ids.b, description: "v=0 Bob's offer" });
  const events = listen(own);
  socket.state(socket.next("place"), "placed");
  socket.deliver(toBob, 1048577, { invite });
  const [{ call }] = named(device.heard, "incoming");
  assert.equal(call.crosses, own);
  socket.deliver(toAnn, 1048578, { stop: { reason: "glare", by: ann, survivor: ids.a } });
  assert.deepEqual([named(events, "ended")[0].reason, own.end.survivor], ["glare", ids.a]);
  socket.deliver(toBob, 1048581, { answered: { by: bob } });
  assert.equal(call.state, "answered");
  assert.equal(device.find(ids.a), call);
  await world.pass(6000);
  assert.deepEqual(socket.names(), []);
});

/** Ann's call rang at Bob's phone and left it, and Bob calls back. */
async function calledBack(world, stop) {
  const { device, socket } = await world.attached({ device: "bob-phone" });
  socket.deliver(toBob, 1048577, { invite });
  const [{ call: former }] = named(device.heard, "incoming");
  socket.deliver(toBob, 1048579, { stop });
  const own = device.place("ann", { id: ids.b });
  socket.state(socket.next("place"), "placed");
  return { device, socket, former, own };
}

test("crossing calls: this side's gives way to one that had left for others", async () => {
  const glare = { stop: { reason: "glare", by: ann, survivor: ids.a } };
  for (const reason of ["unanswered", "declined", "busy"]) {
    for (const isGlareFirst of [true, false]) {
      const world = new World();
      const { device, socket, former, own } = await calledBack(world, { reason });
      if (isGlareFirst) socket.deliver(toAnn, 1048578, glare);
      socket.deliver(toBob, 1048580, { invite: { ...invite, merged: ids.b } });
      socket.deliver(toBob, 1048581, { answered: { by: bob } });
      if (!isGlareFirst) socket.deliver(toAnn, 1048578, glare);
      const [, { call }] = named(device.heard, "incoming");
      assert.equal(former.end.reason, reason);
      assert.deepEqual([call.state, call.crosses, own.end.reason], ["answered", own, "glare"]);
      assert.equal(device.find(ids.a), call);
      // It comes again with a new session, as long as the device has not said that media flow.
      socket.deliver(toBob, 1048585, { invite: { ...invite, merged: ids.b } });
      assert.deepEqual([call.state, named(device.heard, "incoming").length], ["answered", 2]);
      await world.pass(6000);
      assert.deepEqual(socket.names(), []);
    }
  }
});

test("crossing calls: who ends a call that has given way, or gives way meanwhile, ends the one that goes on", async () => {
  for (const isGlareFirst of [true, false]) {
    const world = new World();
    const { device, socket, own } = await calledBack(world, { reason: "declined" });
    if (isGlareFirst) socket.deliver(toAnn, 1048578, { stop: { reason: "glare", by: ann, survivor: ids.a } });
    const finished = own.finish();
    if (!isGlareFirst) {
      socket.state(socket.next("cancel"), "ended", { reason: "glare", by: ann, survivor: ids.a });
    }
    await world.pass(0);
    socket.state(socket.next("decline"), "ended", { reason: "declined", by: bob });
    await finished;
    socket.deliver(toBob, 1048580, { invite: { ...invite, merged: ids.b } });
    socket.deliver(toBob, 1048581, { answered: { by: bob } });
    socket.refuse(socket.next("decline"), 404);
    await world.pass(0);
    socket.state(socket.next("hangUp"), "ended", { reason: "hungUp", by: bob, version: 1048590 });
    assert.equal(device.find(ids.a).end.reason, "hungUp");
    assert.equal(named(device.heard, "incoming").length, 1);
    const shown = named(device.heard, "call").filter(({ call, event }) => call.id === ids.a && event !== "ended");
    assert.deepEqual(shown.map(({ event }) => event), ["incoming"]);
  }
});

test("crossing calls: this side's gives way to one that is over, so the device asks", async () => {
  const world = new World();
  const { device, socket } = await calledBack(world, { reason: "unanswered", missed: true });
  socket.deliver(toAnn, 1048578, { stop: { reason: "glare", by: ann, survivor: ids.a } });
  await world.pass(5100);
  const query = socket.next("query");
  socket.state(query, "ended", { reason: "unanswered", version: 1048579 });
  assert.deepEqual(named(device.heard, "ended").map(({ call }) => call.end.reason), ["unanswered", "glare", "unanswered"]);
  // One that its caller has cancelled goes on nowhere.
  const other = new World();
  const cancelled = await calledBack(other, { reason: "cancelled", by: ann });
  cancelled.socket.deliver(toAnn, 1048578, { stop: { reason: "glare", by: ann, survivor: ids.a } });
  await other.pass(6000);
  assert.deepEqual(cancelled.socket.names(), []);
});

test("a call that was diverted, transferred or placed by the app's server crosses none", async () => {
  for (const other of [
    { divertedBy: { user: "carl" } },
    { transferredBy: { user: "carl", device: "carl-phone" } },
    { caller: { user: "ann", device: "" } },
  ]) {
    const world = new World();
    const { device, socket } = await world.attached({ device: "bob-phone" });
    device.place("ann");
    socket.state(socket.next("place"), "placed");
    socket.deliver(toBob, 1048577, { invite: { ...invite, ...other } });
    assert.equal(named(device.heard, "incoming")[0].call.crosses, null);
  }
});

test("crossing calls: this side's goes on", async () => {
  const world = new World();
  const { device, socket } = await world.attached();
  const own = device.place("bob");
  socket.state(socket.next("place"), "placed");
  socket.deliver(toAnn, 1048577, { invite: { ...invite, caller: bob } });
  const [{ call }] = named(device.heard, "incoming");
  assert.equal(call.crosses, own);
  socket.deliver(toAnn, 1048579, { stop: { reason: "glare", by: ann, survivor: ids.a } });
  socket.deliver(toBob, 1048579, { answered: { by: bob } });
  assert.equal(call.end.reason, "glare");
  assert.equal(own.state, "answered");
});

test("crossing calls: no invite of the survivor comes, so the device asks", async () => {
  for (const phase of ["ended", "unknown"]) {
    const world = new World();
    const { device, socket } = await world.attached({ device: "bob-phone" });
    device.place("ann", { id: ids.b });
    socket.state(socket.next("place"), "placed");
    socket.deliver(toAnn, 1048578, { stop: { reason: "glare", by: ann, survivor: ids.a } });
    await world.pass(4900);
    socket.quiet();
    await world.pass(200);
    const query = socket.next("query");
    assert.deepEqual(query.query.call, toBob);
    socket.state(query, phase, { reason: phase === "ended" ? "cancelled" : undefined });
    assert.equal(named(device.heard, "ended").length, 2);
  }
});

test("woken for a call: the attach names it, and its state comes with the reply", async () => {
  for (const [state, becomes] of [
    [{ phase: "ringing", deadlineMs: epochMs + 9000 }, "waking"],
    [{ phase: "ended", reason: "answeredElsewhere", by: tablet }, "lost"],
    [{ phase: "ended", reason: "cancelled", missed: true }, "ended"],
    [{ phase: "unknown", version: 0 }, "ended"],
  ]) {
    const world = new World();
    const device = world.device({ device: "bob-phone" });
    const call = device.wake({ id: ids.a.toUpperCase(), callee: "bob" });
    assert.equal(device.state, "waiting", "for the token");
    await settled();
    const forCall = { call: toBob, version: 1048580, ...state };
    const { attach } = await world.socket().attach({ user: "bob", device: "bob-phone", forCall });
    assert.equal(attach.forCall, ids.a);
    assert.equal(call.state, becomes);
    world.socket().quiet();
    if (becomes !== "waking") continue;
    world.socket().deliver(toBob, 1048581, { invite });
    assert.equal(call.state, "ringing");
    assert.equal(named(device.heard, "incoming")[0].call, call);
  }
});

test("woken for a call that went on to this user: only its own shard knows it", async () => {
  const world = new World();
  const device = world.device({ device: "carl-phone" });
  const call = device.wake({ id: ids.a, callee: "bob" });
  await settled();
  const forCall = { call: { callee: "carl", id: ids.a }, phase: "unknown" };
  await world.socket().attach({ user: "carl", device: "carl-phone", forCall });
  assert.equal(call.state, "waking");
  const query = world.socket().next("query");
  assert.deepEqual(query.query.call, toBob);
  world.socket().state(query, "ended", { reason: "unanswered", missed: true });
  assert.equal(call.end.missed, true);
});

test("woken while attached, twice, and for a call that rings already", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-phone" });
  device.wake({ id: ids.a, callee: "bob" });
  socket.state(socket.next("query"), "placed");
  socket.deliver(toBob, 1048577, { invite });
  const [{ call }] = named(device.heard, "incoming");
  device.wake({ id: ids.a, callee: "bob" });
  socket.quiet();
  assert.equal(call.state, "ringing");
});

test("woken for a call that was over here: it may ring once more, so the device connects at once", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-phone", edges });
  socket.deliver(toBob, 1048577, { invite });
  socket.deliver(toBob, 1048578, { stop: { reason: "answeredElsewhere", by: tablet } });
  socket.break();
  const sockets = world.sockets.length;
  device.wake({ id: ids.a, callee: "bob" });
  assert.equal(world.sockets.length, sockets + 1);
  assert.equal(named(device.heard, "incoming").length, 1);
});

test("answered in the notification: the call is wanted, before or after its invite", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-phone" });
  device.wake({ id: ids.a, callee: "bob", isWanted: true });
  socket.deliver(toBob, 1048577, { invite });
  assert.equal(named(device.heard, "incoming")[0].call.isWanted, true);
  socket.deliver(toAnn, 1048577, { invite });
  const call = named(device.heard, "incoming")[1].call;
  assert.equal(call.isWanted, false);
  device.wake({ id: ids.b, callee: "ann", isWanted: true });
  assert.equal(named(device.heard, "wanted")[0].call, call);
  assert.equal(call.isWanted, true);
});

test("pushes for more calls than anybody has", async () => {
  const world = new World();
  const device = world.device({ device: "bob-phone" });
  for (let index = 10; index < 40; index += 1) {
    device.wake({ id: `00000000-0000-4000-8000-0000000000${index}`, callee: "bob" });
  }
  assert.equal(named(device.heard, "ended").length, 14);
  await settled();
  await world.socket().attach({ user: "bob", device: "bob-phone" });
  assert.equal(world.socket().names().length, 16);
});
