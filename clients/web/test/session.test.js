// Tokens, close codes, edges that shut down, and nearer edges.

import assert from "node:assert/strict";
import { test } from "node:test";
import { World, ids, listen, named, settled } from "../testing/world.js";

const edges = ["wss://one.example", "wss://two.example", "wss://three.example"];
const toBob = { callee: "bob", id: ids.a };
const host = (socket) => new URL(socket.url).hostname.split(".")[0];

test("without a token the device asks for one before it connects", async () => {
  const world = new World();
  let give;
  const device = world.device({ getToken: () => new Promise((resolve) => (give = resolve)) });
  device.start();
  await settled();
  assert.equal(world.sockets.length, 0);
  give("first");
  await settled();
  assert.equal((await world.socket().attach()).attach.token, "first");
});

test("a token that is given is used first", async () => {
  const world = new World();
  const device = world.device({ token: "given" });
  device.start();
  world.socket().open();
  assert.equal(world.socket().next("attach").attach.token, "given");
  assert.equal(world.tokens, 0);
});

test("a token that expires is renewed, and serves the next attach", async () => {
  const world = new World();
  const { socket } = await world.attached({ edges });
  socket.say({ notice: { kind: "tokenExpires", message: "The token expires in 60 s." } });
  await settled();
  const renew = socket.next("renew");
  assert.equal(renew.renew.token, "token-2");
  socket.reply(renew, { done: {} });
  // A second notice asks for another one.
  socket.say({ notice: { kind: "tokenExpires" } });
  await settled();
  assert.equal(socket.next("renew").renew.token, "token-3");
  socket.break();
  await world.pass(1000);
  assert.equal((await world.socket().attach()).attach.token, "token-3");
});

test("a token that does not come is asked for again", async () => {
  const world = new World();
  let asked = 0;
  const device = world.device({
    getToken: async () => {
      asked += 1;
      if (asked < 3) throw new Error("the server is away");
      return "late";
    },
  });
  device.start();
  await settled();
  assert.equal(named(device.heard, "tokenFailed")[0].error.code, 902);
  await world.pass(1000);
  assert.equal(asked, 3);
  assert.equal((await world.socket().attach()).attach.token, "late");
});

test("a callback that never answers is called again after 30 s", async () => {
  const world = new World();
  let asked = 0;
  world.device({ getToken: () => new Promise(() => (asked += 1)) }).start();
  await world.pass(29_000);
  assert.equal(asked, 1);
  await world.pass(2000);
  assert.equal(asked, 2);
});

test("an expired or revoked token is replaced", async () => {
  for (const code of [201, 204]) {
    const world = new World();
    const device = world.device({ token: "old", edges });
    device.start();
    world.socket().open();
    world.socket().refuse(world.socket().next("attach"), code);
    await settled();
    assert.equal(world.tokens, 1);
    assert.equal(world.sockets.length, 1);
    await world.pass(250);
    assert.equal((await world.socket().attach()).attach.token, "token-1");
  }
});

test("a new token that is refused as well leads to no attempts without end", async () => {
  const world = new World();
  const device = world.device({ token: "old", edges });
  device.start();
  for (let second = 0; second < 60; second += 1) {
    const socket = world.socket();
    if (socket.readyState === 0) {
      socket.open();
      socket.refuse(socket.next("attach"), 201);
    }
    await world.pass(1000);
  }
  assert.ok(world.sockets.length < 14, `${world.sockets.length} attempts`);
});

test("a refusal that another attempt cannot change is final", async () => {
  for (const code of [106, 200, 202, 203, 300]) {
    const world = new World();
    const device = world.device({ edges });
    device.start();
    await settled();
    world.socket().open();
    const waiting = device.rules().catch((error) => error.code);
    world.socket().refuse(world.socket().next("attach"), code);
    assert.equal(named(device.heard, "refused")[0].error.code, code);
    assert.equal(device.state, "stopped");
    assert.equal(await waiting, code);
    await world.pass(120_000);
    assert.equal(world.sockets.length, 1);
  }
});

test("a token that was good before: the keys have changed", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges });
  socket.break();
  await world.pass(1000);
  world.socket().open();
  world.socket().refuse(world.socket().next("attach"), 200);
  await world.pass(1000);
  assert.equal((await world.socket().attach()).attach.token, "token-2");
  assert.equal(device.state, "attached");
});

test("too many devices, and an edge that cannot answer: later", async () => {
  const world = new World();
  const device = world.device({ edges });
  device.start();
  await settled();
  world.socket().open();
  world.socket().refuse(world.socket().next("attach"), 503, { retryAfterMs: 3000 });
  assert.equal(named(device.heard, "detached")[0].retryInMs, 3000);
  assert.equal(named(device.heard, "detached")[0].error.code, 503);
});

test("close codes: who connects again, when, and with what", async () => {
  for (const [code, isFinal, atLeast, needsToken] of [
    [1000, false, 0, false],
    [1002, false, 0, false],
    [1006, false, 0, false],
    [4000, true, 0, false],
    [4001, true, 0, false],
    [4002, false, 0, false],
    [4005, false, 0, false],
    [4006, false, 60_000, false],
    [4007, false, 0, false],
    [4008, false, 0, true],
    [4009, false, 0, true],
    [4010, false, 0, false],
    [4011, false, 0, false],
  ]) {
    const world = new World();
    const { device, socket } = await world.attached({ edges });
    socket.break(code);
    await settled();
    assert.equal(device.state, isFinal ? "stopped" : "waiting", `${code}`);
    if (isFinal) {
      assert.equal(named(device.heard, "refused")[0].error.code, 901);
      continue;
    }
    assert.ok(named(device.heard, "detached")[0].retryInMs >= atLeast);
    await world.pass(atLeast + 1000);
    const { attach } = await world.socket().attach();
    assert.equal(attach.token, needsToken ? "token-2" : "token-1", `${code}`);
  }
});

test("a session that ends with its token is final where no other can be had", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ token: "only", getToken: undefined });
  socket.say({ notice: { kind: "tokenExpires" } });
  socket.break(4008);
  assert.equal(device.state, "stopped");
  assert.equal(named(device.heard, "refused")[0].error.code, 201);
});

test("another copy of the device: this one stays away, and its calls end", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges });
  const call = device.place("bob");
  const events = listen(call);
  socket.state(socket.next("place"), "placed");
  socket.say({ notice: { kind: "sessionReplaced", message: "…" } });
  socket.break(4000);
  assert.equal(device.state, "stopped");
  assert.equal(named(device.heard, "refused").length, 1);
  assert.equal(named(events, "ended")[0].error.code, 901);
  await world.pass(120_000);
  assert.equal(world.sockets.length, 1);
});

test("an attach of its own that arrived late has replaced the session: the device comes back", async () => {
  const world = new World();
  const device = world.device({ edges });
  device.start();
  await settled();
  // The first attach has no reply in time, and arrives later all the same.
  world.socket().open();
  await world.pass(10_000);
  await world.pass(1000);
  const socket = world.socket();
  await socket.attach();
  socket.say({ notice: { kind: "sessionReplaced" } });
  assert.equal(device.state, "waiting");
  await world.pass(1000);
  await world.socket().attach();
  // Two minutes later it cannot have been that one.
  await world.pass(1000);
  world.time += 120_000;
  world.socket().say({ notice: { kind: "sessionReplaced" } });
  assert.equal(device.state, "stopped");
});

test("goAway: the device attaches elsewhere before it leaves", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges });
  const call = device.place("bob");
  socket.state(socket.next("place"), "placed");
  socket.say({ notice: { kind: "goAway", retryAfterMs: 4000 } });
  await world.pass(3999);
  assert.equal(world.sockets.length, 1);
  await world.pass(501);
  const next = world.socket();
  assert.equal(host(next), "two");
  next.open();
  // Until then the former connection serves.
  socket.deliver(toBob, 1048578, { ringing: { by: { user: "bob", device: "bob-phone" } } });
  assert.equal(call.state, "ringing");
  void call.sendCandidate("c1").catch(() => {});
  const candidate = socket.next("candidate");
  await next.attach();
  assert.equal(socket.closedWith, 3000);
  assert.equal(named(device.heard, "detached").length, 0);
  assert.equal(next.next("resume").resume.call.id, ids.a);
  assert.deepEqual(next.next("candidate"), candidate);
  next.deliver(toBob, 1048579, { answered: { by: { user: "bob", device: "bob-phone" } } });
  assert.equal(call.state, "answered");
});

test("goAway: the new session replaces the old one before its reply is here", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges });
  socket.say({ notice: { kind: "goAway" } });
  await world.pass(1);
  const next = world.socket();
  next.open();
  socket.say({ notice: { kind: "sessionReplaced" } });
  assert.equal(device.state, "attaching");
  await next.attach();
  assert.equal(device.state, "attached");
  assert.equal(named(device.heard, "refused").length, 0);
});

test("goAway: the edge closes before the move is complete", async () => {
  for (const stage of ["waiting", "connecting", "attaching"]) {
    const world = new World();
    const { device, socket } = await world.attached({ edges });
    socket.say({ notice: { kind: "goAway", retryAfterMs: stage === "waiting" ? 60_000 : 0 } });
    await world.pass(1);
    if (stage === "attaching") world.socket().open();
    socket.break(4002);
    assert.equal(device.state, stage, stage);
    await world.pass(1000);
    await world.socket().attach();
    assert.equal(host(world.socket()), "two");
    assert.equal(device.state, "attached");
  }
});

test("goAway: an edge that refuses is passed over", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges });
  socket.say({ notice: { kind: "goAway" } });
  await world.pass(1);
  world.socket().open();
  world.socket().refuse(world.socket().next("attach"), 502);
  assert.equal(device.state, "attached");
  await world.pass(500);
  assert.equal(host(world.socket()), "three");
  await world.socket().attach();
  assert.equal(device.state, "attached");
  // Both are avoided for half a minute, the third one is used again.
  world.socket().break();
  await world.pass(1000);
  assert.equal(host(world.socket()), "three");
  world.socket().break();
  await world.pass(1000);
  assert.equal(host(world.socket()), "one");
});

test("goAway: the next edge does not answer", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges });
  socket.say({ notice: { kind: "goAway" } });
  await world.pass(1);
  assert.equal(host(world.socket()), "two");
  // The present connection lives on, and is asked meanwhile.
  await world.pass(10_300);
  assert.equal(host(world.socket()), "three");
  world.socket().break();
  await world.pass(600);
  await world.socket().attach();
  assert.equal(device.state, "attached");
});

test("a place that an edge refuses since it shuts down is repeated on the next one", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges });
  const call = device.place("bob");
  const place = socket.next("place");
  socket.refuse(place, 502);
  await world.pass(1);
  await world.socket().attach();
  assert.deepEqual(world.socket().next("place"), place);
  world.socket().state(place, "placed");
  assert.equal((await call.placed).phase, "placed");
});

test("a nearer edge: between calls, within a minute, and not again for ten", async () => {
  const world = new World();
  const nearer = "wss://node-2.example";
  const { device, socket } = await world.attached({ edges, nearer: true }, { nearer });
  assert.equal(socket.frames[0].attach.nearer, true);
  const call = device.place("bob");
  socket.state(socket.next("place"), "placed");
  await call.placed;
  while (world.time < 61_000) {
    await world.pass(15_000);
    socket.say({ notice: { kind: "somethingNew" } });
  }
  assert.equal(world.sockets.length, 1, "a call goes on");
  socket.deliver(toBob, 1048579, { stop: { reason: "unanswered" } });
  while (world.sockets.length === 1) {
    assert.ok(world.time < 160_000);
    await world.pass(1000);
    socket.say({ notice: { kind: "somethingNew" } });
  }
  assert.equal(host(world.socket()), "node-2");
  await world.socket().attach();
  assert.equal(socket.closedWith, 3000);
  world.socket().say({ notice: { kind: "nearer", nearer: "wss://node-3.example" } });
  for (let second = 0; second < 590; second += 10) {
    await world.pass(10_000);
    world.socket().say({ notice: { kind: "somethingNew" } });
  }
  assert.equal(world.sockets.length, 2);
  // When it breaks, the device returns to its list.
  world.socket().break();
  await world.pass(1000);
  assert.equal(host(world.socket()), "one");
});

test("no move to an edge without TLS, to itself, or to what is no address", async () => {
  for (const nearer of ["ws://node-2.example", "wss://one.example", "javascript:alert(1)", "wss://u@x.example", "x".repeat(300)]) {
    const world = new World();
    const { device } = await world.attached({ edges, nearer: true }, { nearer });
    await world.pass(19_000);
    for (let more = 0; more < 4; more += 1) {
      world.socket().say({ notice: { kind: "somethingNew" } });
      await world.pass(19_000);
    }
    assert.equal(world.sockets.length, 1, nearer);
    assert.equal(device.state, "attached");
  }
});

test("a nearer edge that does not take the device: it stays", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ edges, nearer: true, limits: { nearerSpreadMs: 10 } }, { nearer: "wss://near.example" });
  await world.pass(20);
  world.socket().break();
  await world.pass(15_000);
  assert.equal(world.sockets.length, 2);
  assert.equal(device.state, "attached");
  assert.equal(socket.closedWith, null);
});

test("a device's name that is too long is the edge's to cut", async () => {
  const deviceName = "ท".repeat(43);
  const world = new World();
  world.device({ deviceName }).start();
  await settled();
  assert.equal((await world.socket().attach()).attach.deviceName, deviceName);
});
