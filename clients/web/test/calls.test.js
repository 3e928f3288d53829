import assert from "node:assert/strict";
import { test } from "node:test";
import { World, epochMs, ids, listen, named, settled } from "../testing/world.js";

const bob = { user: "bob", device: "bob-phone", deviceName: "Bob's phone" };
const tablet = { user: "bob", device: "bob-tablet", deviceName: "Bob's tablet" };
const ann = { user: "ann", device: "ann-phone", deviceName: "Ann's phone", name: "Ann Lee" };
const toBob = { callee: "bob", id: ids.a };
const invite = { caller: ann, deadlineMs: epochMs + 30_000, description: "v=0 offer" };

/** A device of Bob's that rings. */
async function ringing(world, more = {}, version = 1048577) {
  const { device, socket } = await world.attached({ device: "bob-phone" });
  let call;
  device.on("incoming", (event) => (call = event.call));
  socket.deliver(toBob, version, { invite: { ...invite, ...more } });
  return { device, socket, call, events: listen(call) };
}

/** A call of Ann's that the cluster has accepted. */
async function placed(world, options = {}) {
  const { device, socket } = await world.attached();
  const call = device.place("bob", { description: "v=0 offer", ...options });
  const events = listen(call);
  socket.state(socket.next("place"), "placed", { deadlineMs: epochMs + 30_000 });
  await settled();
  return { device, socket, call, events };
}

test("the attach has the token, the device and what the app asks for", async () => {
  const world = new World();
  const device = world.device({ deviceName: "Ann's phone", ongoing: true, history: true, onlyPlaces: true });
  device.start();
  await settled();
  const { attach, id } = await world.socket().attach();
  assert.equal(id, 1);
  assert.deepEqual(attach, {
    token: "token-1",
    client: "callmesh-web/1",
    device: "ann-phone",
    deviceName: "Ann's phone",
    onlyPlaces: true,
    ongoing: true,
    history: true,
  });
  assert.equal(device.state, "attached");
  assert.equal(device.user, "ann");
  assert.equal(device.clusterTime, epochMs);
});

test("a call from its placing to the hang-up", async () => {
  const world = new World();
  const { socket, call, events } = await placed(world, { video: true, ringTimeoutSeconds: 20, pushData: "{}" });
  assert.equal(call.state, "placed");
  assert.equal((await call.placed).phase, "placed");
  assert.deepEqual(socket.frames[1].place, {
    call: toBob,
    ringTimeoutSeconds: 20,
    description: "v=0 offer",
    video: true,
    pushData: "{}",
  });
  socket.deliver(toBob, 1048578, { ringing: { by: bob } });
  assert.equal(call.state, "ringing");
  socket.deliver(toBob, 1048579, { answered: { by: bob, description: "v=0 answer" } });
  assert.equal(call.state, "answered");
  assert.deepEqual(call.peer, bob);
  const connected = call.connected();
  socket.reply(socket.next("connected"), { done: {} });
  await connected;
  assert.equal(call.state, "connected");
  const over = call.hangUp();
  socket.state(socket.next("hangUp"), "ended", { reason: "hungUp", by: ann });
  await over;
  assert.equal(call.state, "ended");
  assert.deepEqual(
    events.map(({ type }) => type),
    ["placed", "ringing", "answered", "connected", "ended"],
  );
  assert.equal(events[2].description, "v=0 answer");
  assert.deepEqual(call.end.reason, "hungUp");
});

test("each ringing names who alerts now", async () => {
  const world = new World();
  const { socket, call, events } = await placed(world);
  socket.deliver(toBob, 1048578, { ringing: { by: bob } });
  socket.deliver(toBob, 1048579, { ringing: { by: { user: "carl", device: "carl-phone" } } });
  assert.deepEqual(
    named(events, "ringing").map(({ by }) => by.user),
    ["bob", "carl"],
  );
  assert.equal(call.peer.user, "carl");
});

test("a call that cannot ring ends once, whether its stop or the reply comes first", async () => {
  for (const isStopFirst of [true, false]) {
    const world = new World();
    const { device, socket } = await world.attached();
    const call = device.place("bob");
    const events = listen(call);
    const frame = socket.next("place");
    const stop = { reason: "unreachable", unreachable: "noDevice" };
    if (isStopFirst) socket.deliver(toBob, 1048577, { stop });
    socket.state(frame, "ended", stop);
    if (!isStopFirst) socket.deliver(toBob, 1048577, { stop });
    await call.placed;
    assert.equal(named(events, "ended").length, 1);
    assert.equal(call.end.unreachable, "noDevice");
  }
});

test("a refused call ends with the error", async () => {
  const world = new World();
  const { device, socket } = await world.attached();
  const call = device.place("nobody");
  const events = listen(call);
  const candidate = call.sendCandidate("candidate:1");
  socket.refuse(socket.next("place"), 420, { message: "Not at night." });
  await assert.rejects(call.placed, { code: 420, message: "Not at night." });
  assert.equal(call.end.reason, "failed");
  assert.equal(call.end.error.codeName, "refusedByApp");
  assert.equal(events.length, 1);
  assert.deepEqual(await candidate, { done: {} });
  socket.quiet();
});

test("an incoming call says all that the invite says", async () => {
  const world = new World();
  const { call, socket } = await ringing(world, {
    video: true,
    headers: [{ name: "X-Team", value: "support" }],
    pushData: "{}",
    secondCall: true,
    divertedBy: "desk",
  });
  assert.equal(call.state, "ringing");
  assert.equal(call.role, "callee");
  assert.deepEqual(call.caller, ann);
  assert.deepEqual(call.peer, ann);
  assert.equal(call.description, "v=0 offer");
  assert.equal(call.video, true);
  assert.deepEqual(call.headers, [{ name: "X-Team", value: "support" }]);
  assert.equal(call.pushData, "{}");
  assert.equal(call.isSecondCall, true);
  assert.equal(call.divertedBy, "desk");
  assert.equal(call.deadlineMs, epochMs + 30_000);
  // An alerting acknowledges the invite as well.
  const alerted = call.alerting();
  socket.state(socket.next("alerting"), "ringing");
  await alerted;
  await world.pass(1000);
  assert.deepEqual(socket.acks, []);
});

test("an answer that wins", async () => {
  const world = new World();
  const { socket, call, events } = await ringing(world);
  const answered = call.answer("v=0 answer");
  assert.equal(call.state, "answering");
  const frame = socket.next("answer");
  assert.equal(frame.answer.description, "v=0 answer");
  socket.won(frame, bob);
  assert.equal(await answered, true);
  assert.equal(call.state, "answered");
  assert.equal(call.role, "callee");
  assert.deepEqual(
    events.map(({ type }) => type),
    ["answering", "answered"],
  );
  assert.equal(events[1].isHere, true);
});

test("an answer that another device was faster with", async () => {
  const world = new World();
  const { device, socket, call, events } = await ringing(world);
  const answered = call.answer("v=0 answer");
  const state = { call: toBob, phase: "ended", version: 1048583, reason: "answeredElsewhere", by: tablet };
  socket.reply(socket.next("answer"), { answer: { won: false, call: state } });
  assert.equal(await answered, false);
  assert.equal(call.state, "lost");
  assert.deepEqual(call.end.by, tablet);
  // The stop says the same again.
  socket.deliver(toBob, 1048582, { stop: { reason: "answeredElsewhere", by: tablet } });
  assert.equal(named(events, "ended").length, 1);
  assert.equal(named(device.heard, "ended").length, 1);
});

test("answered elsewhere while it rings", async () => {
  const world = new World();
  const { socket, call, events } = await ringing(world);
  socket.deliver(toBob, 1048578, { stop: { reason: "answeredElsewhere", by: tablet } });
  assert.equal(call.state, "lost");
  assert.equal(events[0].by.deviceName, "Bob's tablet");
  await assert.rejects(call.answer(), { code: 404 });
  socket.quiet();
});

test("who has the call never learns that it lost", async () => {
  const world = new World();
  const { socket, call } = await ringing(world);
  const answered = call.answer();
  socket.won(socket.next("answer"), bob);
  await answered;
  socket.deliver(toBob, 1048582, { stop: { reason: "answeredElsewhere", by: tablet } });
  assert.equal(call.state, "answered");
  socket.deliver(toBob, 1048584, { stop: { reason: "hungUp", by: ann } });
  assert.equal(call.state, "ended");
});

test("declined everywhere, here, and busy", async () => {
  for (const [method, name, scope, reason] of [
    ["decline", "decline", undefined, "declined"],
    ["declineHere", "decline", "here", "declined"],
    ["busy", "busy", undefined, "busy"],
  ]) {
    const world = new World();
    const { socket, call, events } = await ringing(world);
    const done = call[method]();
    const frame = socket.next(name);
    assert.equal(frame[name].scope, scope);
    socket.state(frame, "ended", { reason, by: bob });
    await done;
    assert.equal(call.state, "ended");
    assert.equal(call.end.reason, reason);
    assert.equal(events.length, 1);
    // The invite comes again, since its acknowledgement was lost: it rings no more.
    socket.deliver(toBob, 1048577, { invite });
    socket.deliver(toBob, 1048590, { invite });
    assert.equal(call.state, "ended");
  }
});

test("a cancel, and one that came too late", async () => {
  const world = new World();
  const { socket, call } = await placed(world);
  const cancelled = call.cancel();
  socket.state(socket.next("cancel"), "ended", { reason: "cancelled", by: ann });
  await cancelled;
  assert.equal(call.end.reason, "cancelled");

  const late = await placed(new World());
  const finished = late.call.finish();
  late.socket.state(late.socket.next("cancel"), "answered", { by: bob });
  await settled();
  late.socket.state(late.socket.next("hangUp"), "ended", { reason: "hungUp", by: ann });
  await finished;
  assert.equal(late.call.end.reason, "hungUp");
});

test("finish does what fits the state", async () => {
  const world = new World();
  const { socket, call } = await ringing(world);
  const finished = call.finish();
  socket.state(socket.next("decline"), "ended", { reason: "declined", by: bob });
  await finished;
  await call.finish();
  socket.quiet();
});

test("each delivery is acknowledged, also a repeated one, and told once", async () => {
  const world = new World();
  const { socket, call, events } = await placed(world);
  socket.deliver(toBob, 1048578, { ringing: { by: bob } });
  socket.deliver(toBob, 1048578, { ringing: { by: bob } });
  socket.deliver(toBob, 1048579, { answered: { by: bob } });
  socket.deliver(toBob, 1048578, { ringing: { by: bob } });
  await world.pass(200);
  assert.equal(call.state, "answered");
  assert.deepEqual(
    socket.acks.map(({ version }) => version - 1048576),
    [2, 2, 3, 2],
  );
  assert.deepEqual(socket.acks[0].call, toBob);
  assert.equal(events.length, 3);
});

test("a delivery behind a lost one is neither taken nor acknowledged", async () => {
  const world = new World();
  const { socket, call, events } = await placed(world);
  socket.deliver(toBob, 1048580, { answered: { by: bob }, after: 1048578 });
  await world.pass(200);
  assert.equal(call.state, "placed");
  assert.deepEqual(socket.acks, []);
  socket.deliver(toBob, 1048578, { ringing: { by: bob } });
  socket.deliver(toBob, 1048580, { answered: { by: bob }, after: 1048578 });
  await world.pass(200);
  assert.equal(call.state, "answered");
  assert.equal(events.length, 3);
  assert.equal(socket.acks.length, 2);
});

test("signals come once and in order, wherever they are", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-phone" });
  const taken = [];
  device.on("incoming", ({ call }) => call.onSignal(({ kind, body }) => taken.push(`${kind} ${body}`)));
  const candidate = (index) => ({ index, kind: "candidate", body: `c${index}` });
  socket.deliver(toBob, 1048577, { invite: { ...invite, signals: [candidate(1), candidate(2)] } });
  socket.deliver(toBob, 1048578, { signal: candidate(2) });
  socket.deliver(toBob, 1048579, { signal: { index: 3, kind: "telepathy", body: "?" } });
  socket.deliver(toBob, 1048580, { signal: { index: 4, kind: "description", body: "v=0" } });
  socket.deliver(toBob, 1048581, { signal: { index: 5, kind: "information", body: "{}" } });
  // The session is new to the shard: the invite comes again, with all candidates.
  socket.deliver(toBob, 1048582, { invite: { ...invite, signals: [candidate(1), candidate(2), candidate(6)] } });
  assert.deepEqual(taken, ["candidate c1", "candidate c2", "description v=0", "information {}", "candidate c6"]);
  await world.pass(200);
  assert.equal(socket.acks.length, 6);
});

test("signals wait in the call until somebody takes them, within a limit", async () => {
  const world = new World();
  const { socket, call } = await ringing(world);
  socket.deliver(toBob, 1048578, { signal: { index: 1, kind: "description", body: "v=0" } });
  for (let index = 2; index <= 400; index += 1) {
    socket.deliver(toBob, 1048577 + index, { signal: { index, kind: "candidate", body: `c${index}` } });
  }
  const taken = [];
  call.onSignal(({ body }) => taken.push(body));
  assert.equal(taken.length, 256);
  assert.equal(taken[0], "v=0");
  assert.equal(taken.at(-1), "c400");
});

test("an information, and signals of a call that is over", async () => {
  const world = new World();
  const { socket, call } = await placed(world);
  socket.deliver(toBob, 1048579, { answered: { by: bob } });
  const said = call.sendInformation('{"hold":true}');
  const frame = socket.next("information");
  assert.deepEqual(frame.information, { call: toBob, body: '{"hold":true}' });
  socket.reply(frame, { done: {} });
  await said;
  socket.deliver(toBob, 1048580, { stop: { reason: "hungUp", by: bob } });
  await call.sendCandidate("candidate:2");
  socket.quiet();
});

test("a stop of a call that never rang here is told as well", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-phone" });
  socket.deliver(toBob, 1048580, { stop: { reason: "cancelled", by: ann, missed: true } });
  const [{ call }] = named(device.heard, "ended");
  assert.equal(call.end.missed, true);
  assert.equal(named(device.heard, "incoming").length, 0);
  // Its invite was under way: it must not ring.
  socket.deliver(toBob, 1048577, { invite });
  assert.equal(named(device.heard, "incoming").length, 0);
});

test("calls of two callees with one id are two calls", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-phone" });
  socket.deliver(toBob, 1048577, { invite });
  socket.deliver({ callee: "desk", id: ids.a }, 1048577, { invite });
  assert.equal(named(device.heard, "incoming").length, 2);
  socket.deliver({ callee: "desk", id: ids.a }, 1048578, { stop: { reason: "cancelled" } });
  assert.equal(device.calls.length, 1);
  assert.equal(device.calls[0].callee, "bob");
});

test("a listener that throws keeps nobody else from hearing", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-phone" });
  const reported = [];
  const former = globalThis.reportError;
  globalThis.reportError = (error) => reported.push(error.message);
  device.on("incoming", () => {
    throw new Error("mine");
  });
  socket.deliver(toBob, 1048577, { invite });
  globalThis.reportError = former;
  assert.deepEqual(reported, ["mine"]);
  assert.equal(named(device.heard, "incoming").length, 1);
});

test("a command of a listener is sent behind what the event caused", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-phone" });
  device.on("incoming", ({ call }) => void call.alerting());
  socket.deliver(toBob, 1048577, { invite });
  assert.deepEqual(socket.names(), ["alerting"]);
});

test("a text that is too long is refused here", async () => {
  const world = new World();
  const { device, socket, call } = await placed(world);
  assert.throws(() => device.place("x".repeat(129)), { code: 410 });
  assert.throws(() => device.place(""), { code: 410 });
  assert.throws(() => device.place("bob", { description: "é".repeat(40_000) }), { code: 408 });
  assert.throws(() => device.place("bob", { pushData: "x".repeat(1025) }), { code: 414 });
  assert.throws(() => call.sendDescription("x".repeat(65_537)), { code: 408 });
  assert.throws(() => call.sendCandidate("x".repeat(16_385)), { code: 408 });
  assert.throws(() => call.sendInformation("é".repeat(2049)), { code: 413 });
  assert.throws(() => call.sendInformation(7), { code: 106 });
  socket.quiet();
});

test("restarted: live calls, one resumed, one ended", async () => {
  const world = new World();
  const { device, socket } = await world.attached();
  const asked = device.liveCalls();
  const state = { call: toBob, phase: "answered", version: 1048577 };
  socket.reply(socket.next("calls"), { calls: { placed: [state] } });
  assert.deepEqual(await asked, { placed: [state], received: [] });
  const call = device.resume(toBob);
  const events = listen(call);
  socket.state(socket.next("resume"), "answered", { by: bob });
  await call.placed;
  // The former page has acknowledged the answer, so no delivery of it comes.
  assert.equal(call.state, "answered");
  assert.deepEqual(call.peer, bob);
  assert.equal(events[0].description, "");
  // This one was not acknowledged: it has the description.
  socket.deliver(toBob, 1048579, { answered: { by: bob, description: "v=0 answer" } });
  socket.deliver(toBob, 1048580, { answered: { by: bob, description: "v=0 again" } });
  assert.deepEqual(
    events.map(({ description }) => description),
    ["", "v=0 answer"],
  );
  const other = device.end({ callee: "carl", id: ids.b });
  socket.state(socket.next("hangUp"), "ended", { reason: "cancelled" });
  assert.equal((await other).reason, "cancelled");
});

test("a call that this device had answered comes back to a page that was loaded anew", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-phone" });
  socket.deliver(toBob, 1048580, { answered: { by: bob } });
  const [{ call }] = named(device.heard, "taken");
  assert.equal(call.state, "answered");
  assert.equal(call.role, "callee");
});

test("it is acknowledged once the app has sent a command about it", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-phone" });
  socket.deliver(toBob, 1048580, { answered: { by: bob } });
  socket.deliver(toBob, 1048581, { signal: { index: 1, kind: "candidate", body: "c1" } });
  socket.deliver(toBob, 1048580, { answered: { by: bob } });
  void device.query(toBob);
  await world.pass(2000);
  assert.deepEqual(socket.acks, []);
  const [{ call }] = named(device.heard, "taken");
  void call.connected();
  assert.deepEqual(
    socket.acks.map(({ version }) => version),
    [1048580, 1048581],
  );
  socket.deliver(toBob, 1048582, { signal: { index: 2, kind: "candidate", body: "c2" } });
  await world.pass(200);
  assert.equal(socket.acks.at(-1).version, 1048582);
});

test("the end of a call that the app has not claimed is acknowledged", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-phone" });
  socket.deliver(toBob, 1048580, { answered: { by: bob } });
  socket.deliver(toBob, 1048581, { stop: { reason: "hungUp", by: ann } });
  await world.pass(200);
  assert.deepEqual(
    socket.acks.map(({ version }) => version),
    [1048580, 1048581],
  );
  assert.equal(named(device.heard, "ended").length, 1);
});

test("what waits for a claim is forgotten with its connection", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-phone" });
  socket.deliver(toBob, 1048580, { answered: { by: bob } });
  socket.break();
  const next = await world.connecting();
  await next.attach({ device: "bob-phone", user: "bob" });
  const [{ call }] = named(device.heard, "taken");
  next.deliver(toBob, 1048590, { answered: { by: bob } });
  await world.pass(200);
  assert.deepEqual(next.acks, []);
  void call.connected();
  assert.deepEqual(
    next.acks.map(({ version }) => version),
    [1048590],
  );
});

test("a call that has gone on to others rings longer than was said", async () => {
  const world = new World();
  const { socket, call, events } = await placed(world);
  socket.deliver(toBob, 1048578, { ringsUntil: { deadlineMs: epochMs + 50_000 } });
  assert.equal(call.deadlineMs, epochMs + 50_000);
  assert.deepEqual(named(events, "ringsUntil"), [{ type: "ringsUntil", deadlineMs: epochMs + 50_000 }]);
  socket.deliver(toBob, 1048579, { answered: { by: bob, description: "v=0 answer" } });
  socket.deliver(toBob, 1048580, { ringsUntil: { deadlineMs: epochMs + 60_000 } });
  assert.equal(call.deadlineMs, epochMs + 50_000);
  assert.equal(named(events, "ringsUntil").length, 1);

  const rung = await ringing(new World());
  rung.socket.deliver(toBob, 1048578, { ringsUntil: { deadlineMs: epochMs + 50_000 } });
  assert.equal(rung.call.deadlineMs, epochMs + 50_000);
});

test("the user gives up while the answer is on its way: it wins, and the call is hung up", async () => {
  const { socket, call } = await ringing(new World());
  call.answer("v=0 answer").catch(() => {});
  call.finish().catch(() => {});
  socket.won(socket.next("answer"), bob);
  socket.refuse(socket.next("decline"), 404);
  await settled();
  assert.deepEqual([call.state, socket.names()], ["answered", ["hangUp"]]);
});
