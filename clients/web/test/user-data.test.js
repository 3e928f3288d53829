import assert from "node:assert/strict";
import { test } from "node:test";
import { World, epochMs, ids, named, settled } from "../testing/world.js";

const edges = ["wss://one.example", "wss://two.example"];
const entry = (version, device = "bob-tablet") => ({
  version,
  calls: [{ call: { callee: "bob", id: ids.a }, placed: false, device, user: "ann", sinceMs: epochMs }],
});

test("the history, page by page", async () => {
  const world = new World();
  const { device, socket } = await world.attached();
  const first = device.history({ limit: 20 });
  const frame = socket.next("history");
  assert.deepEqual(frame.history, { limit: 20 });
  const page = { entries: [{ cursor: "3f", missed: true }], next: "3f", cursor: "3g", unread: 1, readUpTo: "2z" };
  socket.reply(frame, { history: page });
  assert.deepEqual(await first, page);
  const second = device.history({ before: "3f" });
  const older = socket.next("history");
  assert.deepEqual(older.history, { before: "3f" });
  socket.reply(older, { history: { cursor: "3g" } });
  assert.deepEqual(await second, { entries: [], unread: 0, cursor: "3g" });
  await assert.rejects(device.history({ limit: 101 }), { code: 106 });
  await assert.rejects(device.history({ limit: 0 }), { code: 106 });
});

test("credentials for TURN servers: from the attach, renewed, and not after their expiry", async () => {
  const world = new World();
  const given = (number, seconds) => ({
    urls: ["turn:turn.example"],
    username: `${number}:ann`,
    password: `p${number}`,
    expiresAtMs: world.clusterTime + 1000 * seconds,
  });
  const { device, socket } = await world.attached({ relays: true, edges }, { relays: given(1, 60) });
  assert.deepEqual(device.iceServers, [{ urls: ["turn:turn.example"], username: "1:ann", credential: "p1" }]);
  assert.equal("relays" in named(device.heard, "attached")[0], false);
  socket.say({ relays: given(2, 30) });
  assert.equal(named(device.heard, "relays").length, 1);
  assert.equal(device.iceServers[0].credential, "p2");
  // They outlive the connection: a call goes on meanwhile, and looks for another way.
  socket.break();
  assert.equal(device.iceServers[0].credential, "p2");
  await world.pass(31_000);
  assert.deepEqual(device.iceServers, []);
  // The next edge has no TURN servers.
  await world.socket().attach();
  assert.deepEqual(device.iceServers, []);
});

test("the history is read", async () => {
  const world = new World();
  const { device, socket } = await world.attached();
  const read = device.markHistoryRead("3f");
  const frame = socket.next("historyRead");
  assert.deepEqual(frame.historyRead, { upTo: "3f" });
  socket.reply(frame, { history: { cursor: "3h", readUpTo: "3f" } });
  assert.deepEqual(await read, { cursor: "3h", unread: 0, readUpTo: "3f" });
});

test("changes of the history: the newest, once each, and anew with each session", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ history: true, edges });
  socket.say({ history: { cursor: "1", unread: 1 } });
  socket.say({ history: { cursor: "1", unread: 1 } });
  socket.say({ history: { cursor: "3" } });
  assert.deepEqual(
    named(device.heard, "history").map(({ cursor, unread }) => [cursor, unread]),
    [
      ["1", 1],
      ["3", 0],
    ],
  );
  socket.break();
  await world.pass(1000);
  await world.socket().attach();
  world.socket().say({ history: { cursor: "3", unread: 0 } });
  assert.equal(named(device.heard, "history").length, 2);
  assert.deepEqual(device.historyState, { cursor: "3", unread: 0 });
  await world.pass(1000);
  assert.deepEqual(world.socket().acks, []);
});

test("ongoing calls: a state, acknowledged, and none of a former connection", async () => {
  const world = new World();
  const { device, socket } = await world.attached({ ongoing: true, edges }, { ongoing: { version: 5 } });
  assert.deepEqual(named(device.heard, "ongoing"), []);
  socket.say({ ongoing: entry(6) });
  socket.say({ ongoing: entry(6) });
  socket.say({ ongoing: entry(4, "bob-watch") });
  assert.equal(device.ongoing[0].device, "bob-tablet");
  await world.pass(200);
  assert.deepEqual(socket.acks, [{ version: 6 }, { version: 6 }]);
  socket.say({ ongoing: { version: 7 } });
  assert.deepEqual(device.ongoing, []);
  assert.equal(named(device.heard, "ongoing").length, 2);
  socket.say({ ongoing: entry(8) });
  socket.break();
  await world.pass(1000);
  await world.socket().attach({});
  assert.deepEqual(device.ongoing, [], "the reply to the attach has none");
  // Versions are of a connection.
  world.socket().say({ ongoing: entry(2) });
  assert.equal(device.ongoing.length, 1);
});

test("rules: read, replaced, removed, refused", async () => {
  const world = new World();
  const { device, socket } = await world.attached();
  const rules = { doNotDisturb: { untilMs: epochMs + 1, except: ["mum"] }, onBusy: { users: ["desk"] } };
  const set = device.setRules(rules);
  const frame = socket.next("setRules");
  assert.deepEqual(frame.setRules, rules);
  socket.reply(frame, { rules: { ...rules, changedAtMs: epochMs } });
  assert.equal((await set).changedAtMs, epochMs);
  const removed = device.setRules({});
  assert.deepEqual(socket.next("setRules").setRules, {});
  socket.reply({ id: 3 }, { rules: { changedAtMs: 0 } });
  await removed;
  const refused = assert.rejects(device.setRules({ always: { users: ["ann"] } }), { code: 430 });
  socket.refuse(socket.next("setRules"), 430);
  await refused;
});

test("a registration, another device's, and the notices about it", async () => {
  const world = new World();
  const { device, socket } = await world.attached();
  const registered = device.register({ deviceName: "Ann's browser", capabilities: ["ended"] });
  const frame = socket.next("register");
  assert.deepEqual(frame.register, { deviceName: "Ann's browser", capabilities: ["ended"] });
  const info = { device: "ann-phone", expiresAtMs: epochMs, capabilities: ["ended"] };
  socket.reply(frame, { registered: info });
  assert.deepEqual(await registered, info);
  for (const [given, body] of [
    [undefined, {}],
    ["old", { device: "old" }],
  ]) {
    const removed = device.unregister(given);
    const request = socket.next("unregister");
    assert.deepEqual(request.unregister, body);
    socket.reply(request, { done: {} });
    await removed;
  }
  socket.say({ notice: { kind: "tokenTaken", message: "…" } });
  socket.say({ notice: { kind: "deviceRemoved", message: "…" } });
  assert.deepEqual(
    named(device.heard, "notice").map(({ kind }) => kind),
    ["tokenTaken", "deviceRemoved"],
  );
  assert.equal(device.state, "attached");
});

test("the state of any call", async () => {
  const world = new World();
  const { device, socket } = await world.attached();
  const asked = device.query({ callee: "bob", id: ids.c });
  socket.state(socket.next("query"), "unknown", { version: 0 });
  assert.equal((await asked).phase, "unknown");
  await settled();
  assert.deepEqual(device.calls, []);
});
