// Against a real cluster, where one is named:
//
//   CALLMESH_EDGES=ws://127.0.0.1:8080,ws://127.0.0.1:8081 CALLMESH_KEYS=keys.json node --test test/cluster.test.js
//
// keys.json is of `callctl keys --app demo`.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Device } from "../callmesh.js";
import { NodeSocket } from "../testing/node-socket.js";
import { edges, skip, token, user } from "../testing/tokens.js";

const run = { skip, timeout: 60_000 };
const made = [];

/** An attached device of a user, and its sockets. */
async function device(user, kind, options = {}) {
  const sockets = [];
  const environment = {
    WebSocket: class extends NodeSocket {
      constructor(url, protocols) {
        super(url, protocols);
        sockets.push(this);
      }
    },
  };
  const made_ = new Device({
    edges,
    device: `${user}-${kind}`,
    deviceName: `${user}'s ${kind}`,
    getToken: async () => token(user, options.seconds),
    environment,
    watchesPage: false,
    ...options,
  });
  made.push(made_);
  made_.sockets = sockets;
  const attached = once(made_, "attached");
  made_.start();
  await attached;
  return made_;
}

const once = (emitter, name) => new Promise((resolve) => emitter.once(name, resolve));
const becomes = async (call, state) => {
  while (call.state !== state) await once(call, "state");
};

test.after(() => made.forEach((device) => device.stop()));

test("a call, answered on one of two devices", run, async () => {
  const [ann, bob] = [user(), user()];
  const [phone, one, other] = [await device(ann, "phone"), await device(bob, "phone"), await device(bob, "tablet")];
  const rings = Promise.all([once(one, "incoming"), once(other, "incoming")]);
  const call = phone.place(bob, { description: "v=0 offer", video: true, pushData: "{}" });
  void call.sendCandidate("candidate:1");
  const [{ call: first }, { call: second }] = await rings;
  assert.equal(first.caller.name, `${ann}'s name`);
  assert.equal(first.video, true);
  await first.alerting();
  await becomes(call, "ringing");
  const signals = [];
  call.onSignal((signal) => signals.push(signal));
  const heard = [];
  first.onSignal((signal) => heard.push(signal));
  const answers = once(call, "answered");
  const results = await Promise.all([first.answer("v=0 one"), second.answer("v=0 other")]);
  assert.equal(results.filter(Boolean).length, 1);
  const winner = results[0] ? first : second;
  const loser = results[0] ? second : first;
  assert.equal((await answers).description, results[0] ? "v=0 one" : "v=0 other");
  await becomes(loser, "lost");
  assert.equal(loser.end.by.device, winner === first ? `${bob}-phone` : `${bob}-tablet`);
  await Promise.all([call.connected(), winner.connected()]);
  assert.equal(call.state, "connected");
  await winner.sendInformation('{"hold":true}');
  await winner.sendCandidate("candidate:2");
  while (signals.length < 2) await once(call, "candidate");
  assert.deepEqual(signals.map(({ body }) => body), ['{"hold":true}', "candidate:2"]);
  assert.deepEqual(heard.map(({ body }) => body), ["candidate:1"]);
  await call.hangUp();
  await becomes(winner, "ended");
  assert.equal(winner.end.reason, "hungUp");
});

test("declined everywhere, here, cancelled, nobody there", run, async () => {
  const [ann, bob] = [user(), user()];
  const [phone, one, other] = [await device(ann, "phone"), await device(bob, "phone"), await device(bob, "tablet")];
  for (const method of ["decline", "declineHere", "cancel"]) {
    const rings = Promise.all([once(one, "incoming"), once(other, "incoming")]);
    const call = phone.place(bob);
    const [{ call: first }, { call: second }] = await rings;
    if (method === "cancel") await call.cancel();
    else await first[method]();
    if (method === "declineHere") {
      assert.equal(second.state, "ringing");
      assert.equal(await second.answer(), true);
      await call.finish();
    }
    await becomes(call, "ended");
    await becomes(first, "ended");
    await becomes(second, "ended");
    assert.equal(first.end.reason, method === "cancel" ? "cancelled" : "declined");
  }
  const call = phone.place(user());
  await becomes(call, "ended");
  assert.deepEqual([call.end.reason, call.end.unreachable], ["unreachable", "noDevice"]);
});

test("both sides lose their connections, in mid-ring and in mid-call", run, async () => {
  const [ann, bob] = [user(), user()];
  const [phone, one] = [await device(ann, "phone"), await device(bob, "phone")];
  const call = phone.place(bob, { description: "v=0 offer" });
  const { call: incoming } = await once(one, "incoming");
  phone.sockets.at(-1).cut();
  one.sockets.at(-1).cut();
  const answering = incoming.answer("v=0 answer");
  assert.equal(await answering, true);
  await becomes(call, "answered");
  await Promise.all([call.connected(), incoming.connected()]);
  const back = Promise.all([once(phone, "attached"), once(one, "attached")]);
  phone.sockets.at(-1).cut();
  one.sockets.at(-1).cut();
  const said = once(call, "information");
  await incoming.sendInformation("still here");
  assert.equal((await said).body, "still here");
  await back;
  await incoming.hangUp();
  await becomes(call, "ended");
  assert.equal(call.end.reason, "hungUp");
});

test("pulled to another device, and transferred", run, async () => {
  const [ann, bob, carl] = [user(), user(), user()];
  const [phone, one, other, third] = [await device(ann, "phone"), await device(bob, "phone"), await device(bob, "tablet"), await device(carl, "phone")];
  const call = phone.place(bob, { description: "v=0" });
  const { call: incoming } = await once(one, "incoming");
  await incoming.answer("v=0");
  await becomes(call, "answered");
  const moves = once(call, "moved");
  const pulled = await other.pull({ call: call.address, device: `${bob}-phone`, user: ann }, "v=0 tablet");
  assert.equal((await moves).to.device, `${bob}-tablet`);
  await becomes(incoming, "ended");
  assert.equal(incoming.end.reason, "moved");
  await pulled.sendDescription("v=0 more");
  const rings = once(third, "incoming");
  await pulled.transfer(carl);
  const { call: handed } = await rings;
  assert.equal(handed.transferredBy.user, bob);
  const movesAgain = once(call, "moved");
  assert.equal(await handed.answer("v=0 Carl's offer"), true);
  assert.deepEqual([(await movesAgain).to.user, call.peer.user], [carl, carl]);
  await becomes(pulled, "ended");
  assert.equal(pulled.end.reason, "transferred");
  // Candidates of the new device get through: its indices go on above those of the former one.
  const candidate = once(call, "candidate");
  await handed.sendCandidate("candidate:carl");
  assert.equal((await candidate).body, "candidate:carl");
  await handed.hangUp();
  await becomes(call, "ended");
});

test("two who call each other get one call", run, async () => {
  const [ann, bob] = [user(), user()];
  const [one, other] = [await device(ann, "phone"), await device(bob, "phone")];
  const [first, second] = [one.place(bob, { description: "v=0 a" }), other.place(ann, { description: "v=0 b" })];
  while (!first.isOver && !second.isOver) await Promise.race([once(first, "state"), once(second, "state")]);
  const [gone, device_] = first.isOver ? [first, one] : [second, other];
  assert.equal(gone.end.reason, "glare");
  while (device_.find(gone.end.survivor)?.state !== "answered") await once(device_, "call");
  await device_.find(gone.end.survivor).hangUp();
});

test("handed over after consultation: the device that was asked answers at once", run, async () => {
  const [ann, bob, carl] = [user(), user(), user()];
  const [phone, desk, other] = [await device(ann, "phone"), await device(bob, "phone"), await device(carl, "phone")];
  const call = phone.place(bob, { description: "v=0" });
  const { call: side } = await once(desk, "incoming");
  await side.answer("v=0");
  const consultation = desk.place(carl, { description: "v=0" });
  const { call: asked } = await once(other, "incoming");
  await asked.answer("v=0");
  await becomes(consultation, "answered");
  const rings = once(other, "incoming");
  await side.transfer(carl, { device: `${carl}-phone`, consulted: consultation });
  const { call: handed } = await rings;
  assert.deepEqual(handed.consulted, consultation.address);
  assert.equal(await handed.answer("v=0 Carl's offer"), true);
  for (const over of [side, consultation, asked]) await becomes(over, "ended");
  assert.equal(asked.end.survivor, call.id);
  await handed.hangUp();
  await becomes(call, "ended");
});

test("ongoing calls and the history, where the app has them", run, async (context) => {
  const [ann, bob] = [user(), user()];
  const [phone, one] = [await device(ann, "phone"), await device(bob, "phone")];
  const watch = await device(bob, "watch", { ongoing: true, history: true });
  const page = await watch.history().catch((error) => error.code);
  if (page === 202) return context.skip("the app has no history");
  const rings = once(one, "incoming");
  const call = phone.place(bob);
  const { call: incoming } = await rings;
  await incoming.answer();
  if (watch.ongoing.length === 0) await once(watch, "ongoing");
  assert.deepEqual([watch.ongoing[0].user, watch.ongoing[0].device], [ann, `${bob}-phone`]);
  await call.hangUp();
  while (watch.ongoing.length > 0) await once(watch, "ongoing");
  const missed = phone.place(bob);
  await becomes(missed, "placed");
  await missed.cancel();
  while (!(watch.historyState?.unread > 0)) await once(watch, "history");
  const { entries, unread } = await watch.history({ limit: 10 });
  assert.deepEqual([entries[0].missed, entries[1].reason, unread], [true, "hungUp", 1]);
  assert.equal((await watch.markHistoryRead(entries[0].cursor)).unread, 0);
  while (watch.historyState.unread > 0) await once(watch, "history");
});

test("rules, a registration, live calls, and a token that is renewed", run, async () => {
  const ann = user();
  const phone = await device(ann, "phone", { seconds: 4 });
  assert.equal((await phone.setRules({ doNotDisturb: { except: ["mum"] } })).doNotDisturb.except[0], "mum");
  assert.equal((await phone.setRules({})).doNotDisturb, undefined);
  await assert.rejects(phone.setRules({ always: { users: [ann] } }), { code: 430 });
  assert.equal((await phone.register({ deviceName: "page" })).device, `${ann}-phone`);
  await phone.unregister();
  assert.deepEqual(await phone.liveCalls(), { placed: [], received: [] });
  // The second notice is about the second token: the session has outlived the first one.
  for (let notice = 0; notice < 2; notice += 1) assert.equal((await once(phone, "notice")).kind, "tokenExpires");
  assert.equal(phone.state, "attached");
  assert.equal(phone.sockets.length, 1);
});
