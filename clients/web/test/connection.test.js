import assert from "node:assert/strict";
import { test } from "node:test";
import { World, epochMs, ids, listen, named, settled } from "../testing/world.js";

const edges = ["wss://one.example", "wss://two.example", "wss://three.example"];
const bob = { user: "bob", device: "bob-phone" };
const ann = { user: "ann", device: "ann-phone" };
const toBob = { callee: "bob", id: ids.a };
const invite = { caller: ann, deadlineMs: epochMs + 30_000, description: "v=0 offer" };
const host = (socket) => new URL(socket.url).hostname.split(".")[0];

test("addresses of edges", async () => {
  const world = new World();
  for (const [given, used] of [
    ["https://edge.example", "wss://edge.example/v1/connect"],
    ["http://127.0.0.1:8080", "ws://127.0.0.1:8080/v1/connect"],
    ["wss://edge.example:444/other/connect", "wss://edge.example:444/other/connect"],
  ]) {
    world.device({ edges: [given] }).start();
    await settled();
    assert.equal(world.socket().url, used);
  }
  assert.throws(() => world.device({ edges: ["ftp://edge.example"] }), { code: 106 });
  assert.throws(() => world.device({ edges: [] }), { code: 106 });
  assert.throws(() => world.device({ device: "x".repeat(65) }), { code: 300 });
  assert.throws(() => world.device({ getToken: undefined }), { code: 902 });
});

test("a session that broke comes back over the next edge, within a second", async () => {
  const world = new World();
  const { device } = await world.attached({ edges });
  world.socket().break();
  const { retryInMs } = named(device.heard, "detached")[0];
  assert.ok(retryInMs >= 0 && retryInMs <= 1000);
  assert.equal(device.state, "waiting");
  await world.pass(1000);
  assert.equal(world.sockets.length, 2);
  assert.equal(host(world.socket()), "two");
  const attach = await world.socket().attach();
  // Ids are never used again, also not on another connection.
  assert.equal(attach.id, 2);
  assert.equal(named(device.heard, "attached")[1].isAgain, true);
});

test("devices come back at different moments", async () => {
  const moments = new Set();
  for (let seed = 1; seed <= 20; seed += 1) {
    const { device, socket } = await new World(seed).attached({ edges });
    socket.break();
    moments.add(Math.floor(named(device.heard, "detached")[0].retryInMs / 50));
  }
  assert.ok(moments.size > 8);
});

test("attempts that are refused: the wait doubles to 15 s, with jitter, over all edges", async () => {
  const world = new World();
  const device = world.device({ edges });
  device.start();
  await settled();
  const waits = [];
  for (let attempt = 0; attempt < 12; attempt += 1) {
    assert.equal(host(world.socket()), ["one", "two", "three"][attempt % 3]);
    world.socket().break();
    const { retryInMs } = device.heard.findLast(({ type }) => type === "detached");
    waits.push(retryInMs);
    await world.pass(retryInMs + 1);
  }
  waits.forEach((wait, attempt) => {
    const most = Math.min(250 * 2 ** attempt, 15_000);
    assert.ok(wait >= most / 2 && wait <= most, `attempt ${attempt} waits ${wait}`);
  });
});

test("an attempt without an answer waits four times as long as a refused one", async () => {
  for (const stage of ["connecting", "attaching"]) {
    const world = new World(7);
    const device = world.device({ edges });
    device.start();
    await settled();
    if (stage === "attaching") world.socket().open();
    assert.equal(device.state, stage);
    await world.pass(9999);
    assert.equal(device.state, stage);
    await world.pass(1);
    const { retryInMs } = named(device.heard, "detached")[0];
    assert.ok(retryInMs >= 500 && retryInMs <= 1000, `${retryInMs}`);
    assert.equal(world.sockets[0].closedWith, 3000);
  }
});

test("the wait after attempts without an answer grows to 15 s, too", async () => {
  const world = new World(7);
  const device = world.device({ edges });
  device.start();
  await settled();
  const waits = [];
  for (let attempt = 0; attempt < 8; attempt += 1) {
    await world.pass(10_000);
    const { retryInMs } = device.heard.findLast(({ type }) => type === "detached");
    waits.push(retryInMs);
    await world.pass(retryInMs + 1);
  }
  waits.forEach((wait, attempt) => {
    const most = Math.min(1000 * 2 ** attempt, 15_000);
    assert.ok(wait >= most / 2 && wait <= most, `attempt ${attempt} waits ${wait}`);
  });
});

test("a device in a call waits two seconds at most", async () => {
  const world = new World(7);
  const { device, socket } = await world.attached({ edges });
  device.place("bob");
  await settled();
  socket.break();
  await world.pass(1001);
  for (let attempt = 0; attempt < 8; attempt += 1) {
    if (attempt % 2) await world.pass(10_000);
    else world.socket().break();
    const { retryInMs } = device.heard.findLast(({ type }) => type === "detached");
    const most = Math.min(250 * 2 ** attempt, 2000);
    assert.ok(retryInMs >= most / 2 && retryInMs <= most, `attempt ${attempt} waits ${retryInMs}`);
    await world.pass(retryInMs + 1);
  }
  for (let attempt = 8; attempt < 61; attempt += 1) {
    world.socket().break();
    const { retryInMs } = device.heard.findLast(({ type }) => type === "detached");
    // The call is over by then, whatever the device believes.
    assert.equal(retryInMs > 2000, attempt === 60, `attempt ${attempt} waits ${retryInMs}`);
    await world.pass(retryInMs + 1);
  }
});

test("a server that does not know the protocol is no edge", async () => {
  const world = new World();
  const device = world.device({ edges });
  device.start();
  await settled();
  const socket = world.socket();
  socket.readyState = 1;
  socket.protocol = "";
  socket.onopen({});
  assert.equal(device.state, "waiting");
  assert.equal(socket.closedWith, 3000);
});

test("a page that may not connect at all waits like after a failure", async () => {
  const world = new World();
  const environment = {
    ...world.environment,
    WebSocket: class {
      constructor() {
        throw new Error("content security policy");
      }
    },
  };
  const device = world.device({ edges, environment });
  device.start();
  await settled();
  assert.equal(device.state, "waiting");
});

test("a silent connection is asked with ping, and given up 5 s later", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges });
  await world.pass(19_999);
  socket.quiet();
  await world.pass(1);
  const ping = socket.next("ping");
  await world.pass(3000);
  socket.reply(ping, { done: {} });
  await world.pass(19_000);
  socket.quiet();
  await world.pass(1000);
  socket.next("ping");
  await world.pass(4999);
  assert.equal(device.state, "attached");
  await world.pass(1);
  assert.equal(device.state, "waiting");
  assert.equal(socket.closedWith, 3000);
});

test("any frame answers a ping", async () => {
  const world = new World();
  const { device, socket } = await world.attached();
  await world.pass(20_000);
  socket.next("ping");
  socket.say({ notice: { kind: "somethingNew" } });
  await world.pass(10_000);
  assert.equal(device.state, "attached");
});

test("a page that was frozen asks again before it gives up", async () => {
  const world = new World();
  const { device, socket } = await world.attached();
  await world.pass(20_000);
  socket.next("ping");
  await world.freeze(3_600_000);
  assert.equal(device.state, "attached");
  socket.reply(socket.next("ping"), { done: {} });
  await world.pass(5000);
  assert.equal(device.state, "attached");
});

test("a hidden page, whose timers are late each time, gives up a dead connection", async () => {
  const world = new World();
  const { device, socket } = await world.attached();
  for (let minute = 0; minute < 2; minute += 1) await world.freeze(60_000);
  assert.equal(device.state, "attached");
  await world.freeze(60_000);
  assert.equal(device.state, "waiting");
  assert.equal(socket.closedWith, 3000);
});

test("a page that is shown, or has another network, asks at once or connects at once", async () => {
  const world = new World();
  const { device, socket } = await world.attached();
  device.probe();
  socket.next("ping");
  device.probe();
  socket.quiet();
  socket.break();
  assert.equal(world.sockets.length, 1);
  device.probe();
  assert.equal(world.sockets.length, 2);
  device.probe();
  assert.equal(world.sockets.length, 2);
});

test("who was told when to come back does not come sooner", async () => {
  const world = new World();
  const { device, socket } = await world.attached();
  socket.break(4006);
  device.probe();
  device.wake({ id: ids.b, callee: "ann" });
  await world.pass(59_000);
  device.probe();
  assert.equal(world.sockets.length, 1);
  await world.pass(1100);
  assert.equal(world.sockets.length, 2);
});

test("a hidden page acknowledges without a timer", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-phone" });
  socket.deliver(toBob, 1048577, { invite });
  assert.equal(socket.acks.length, 0);
  device.setHidden(true);
  assert.equal(socket.acks.length, 1);
  socket.deliver(toBob, 1048578, { signal: { index: 1, kind: "candidate", body: "c" } });
  assert.equal(socket.acks.length, 2);
});

test("a callee that reconnects in mid-ring goes on ringing, and answers", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges, device: "bob-phone" });
  socket.deliver(toBob, 1048577, { invite });
  const [{ call }] = named(device.heard, "incoming");
  socket.break();
  await world.pass(3000);
  await world.socket().attach({ user: "bob", device: "bob-phone" });
  // A callee needs no resume.
  world.socket().quiet();
  world.socket().deliver(toBob, 1048579, { invite });
  assert.equal(named(device.heard, "incoming").length, 1);
  const answered = call.answer("v=0 answer");
  world.socket().won(world.socket().next("answer"), bob);
  assert.equal(await answered, true);
});

test("a call stops ringing by itself where the connection does not come back", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges, device: "bob-phone" });
  socket.deliver(toBob, 1048577, { invite });
  const [{ call }] = named(device.heard, "incoming");
  await world.pass(10_000);
  socket.break();
  const answer = call.answer().catch((error) => error.code);
  await world.pass(24_900);
  assert.equal(call.state, "answering");
  await world.pass(200);
  assert.deepEqual([call.end.reason, call.end.isLocal, call.end.missed], ["unanswered", true, true]);
  assert.equal(await answer, 501);
  // The cluster invites once more: the call is over here.
  await (await world.connecting()).attach({ user: "bob", device: "bob-phone" });
  world.socket().deliver(toBob, 1048580, { invite });
  assert.equal(named(device.heard, "incoming").length, 1);
});

test("an answer that has won after the call was given up here is hung up", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges, device: "bob-phone" });
  socket.deliver(toBob, 1048577, { invite });
  const [{ call }] = named(device.heard, "incoming");
  void call.answer().catch(() => {});
  socket.next("answer");
  socket.break();
  await world.pass(36_000);
  assert.equal(call.isOver, true);
  await (await world.connecting()).attach({ user: "bob", device: "bob-phone" });
  world.socket().deliver(toBob, 1048581, { answered: { by: bob } });
  assert.deepEqual(world.socket().next("hangUp").hangUp.call, toBob);
});

test("a caller that reconnects resumes its call, and gets the answer", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges });
  const call = device.place("bob", { description: "v=0" });
  socket.state(socket.next("place"), "placed");
  await call.placed;
  void call.sendCandidate("candidate:1").catch(() => {});
  const candidate = socket.next("candidate");
  socket.break();
  await world.pass(1000);
  await world.socket().attach();
  // The resume comes first, then what had no reply, under its former id.
  const resume = world.socket().next("resume");
  assert.deepEqual(resume.resume.call, toBob);
  assert.deepEqual(world.socket().next("candidate"), candidate);
  world.socket().deliver(toBob, 1048578, { answered: { by: bob, description: "v=0 answer" } });
  world.socket().state(resume, "answered", { by: bob });
  assert.equal(call.state, "answered");
});

test("a caller that comes back too late learns the end", async () => {
  for (const how of ["stop", "reply", "unknown", "refused"]) {
    const world = new World();
    const { device, socket } = await world.attached({ edges });
    const call = device.place("bob");
    const events = listen(call);
    socket.state(socket.next("place"), "placed");
    socket.break();
    await world.pass(1000);
    await world.socket().attach();
    const resume = world.socket().next("resume");
    if (how === "stop") world.socket().deliver(toBob, 1048578, { stop: { reason: "cancelled" } });
    if (how === "reply") world.socket().state(resume, "ended", { reason: "cancelled" });
    if (how === "unknown") world.socket().state(resume, "unknown", { version: 0 });
    if (how === "refused") world.socket().refuse(resume, 400);
    assert.equal(named(events, "ended").length, 1, how);
    assert.equal(call.end.reason, ["stop", "reply"].includes(how) ? "cancelled" : "failed");
  }
});

test("both sides reconnect in mid-call without losing it", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges });
  const call = device.place("bob");
  socket.state(socket.next("place"), "placed");
  socket.deliver(toBob, 1048578, { answered: { by: bob } });
  const connected = call.connected();
  socket.reply(socket.next("connected"), { done: {} });
  await connected;
  socket.break();
  await world.pass(1000);
  await world.socket().attach();
  world.socket().state(world.socket().next("resume"), "answered", { by: bob });
  assert.equal(call.state, "connected");

  const { device: other, socket: winner } = await world.attached({ edges, device: "bob-phone" });
  winner.deliver(toBob, 1048577, { invite });
  const [{ call: answered }] = named(other.heard, "incoming");
  void answered.answer();
  winner.won(winner.next("answer"), bob);
  const events = listen(answered);
  winner.break();
  await world.pass(1000);
  await world.socket().attach({ user: "bob", device: "bob-phone" });
  world.socket().quiet();
  world.socket().deliver(toBob, 1048583, { answered: { by: bob } });
  assert.equal(answered.state, "answered");
  assert.deepEqual(events, []);
});

test("the reply to an answer was lost with the connection", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges, device: "bob-phone" });
  socket.deliver(toBob, 1048577, { invite });
  const [{ call }] = named(device.heard, "incoming");
  const events = listen(call);
  const answered = call.answer("v=0 answer");
  const first = socket.next("answer");
  socket.break();
  await world.pass(1000);
  await world.socket().attach({ user: "bob", device: "bob-phone" });
  // The cluster says it by a delivery before the answer is repeated, and by the reply.
  world.socket().deliver(toBob, 1048583, { answered: { by: bob } });
  const second = world.socket().next("answer");
  assert.deepEqual(second, first);
  world.socket().won(second, bob);
  assert.equal(await answered, true);
  assert.equal(named(events, "answered").length, 1);
});

test("sign out detaches; leaving does not", async () => {
  const world = new World();
  const { device, socket } = await world.attached();
  const call = device.place("bob");
  socket.next("place");
  device.stop();
  socket.next("detach");
  assert.equal(socket.closedWith, 1000);
  assert.equal(device.state, "stopped");
  await assert.rejects(call.placed, { code: 900 });
  assert.equal(call.isOver, true);
  await assert.rejects(device.rules(), { code: 900 });
  await world.pass(60_000);
  assert.equal(world.sockets.length, 1);

  const other = await world.attached();
  other.device.leave();
  other.socket.quiet();
  assert.equal(other.socket.closedWith, 3000);
  other.device.start();
  assert.equal(other.device.state, "connecting");
});

test("frames that nobody understands do no harm", async () => {
  const world = new World();
  const { device, socket } = await world.attached();
  for (const text of ["", "nonsense", "null", "[]", "7", '{"reply":{}}', '{"delivery":{}}', '{"surprise":{}}']) {
    socket.say(text);
  }
  socket.onmessage({ data: new ArrayBuffer(4) });
  socket.say({ reply: { id: 77, done: {} } });
  socket.say({ delivery: { call: toBob, version: 5, wormhole: {} } });
  assert.equal(device.state, "attached");
});

test("a socket that takes nothing is given up", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges });
  socket.bufferedAmount = 2_000_000;
  void device.rules().catch(() => {});
  assert.equal(device.state, "waiting");
});
