import assert from "node:assert/strict";
import { test } from "node:test";
import { disablePush, enablePush, followPushes } from "../callmesh.js";
import { deviceId, holdDevice, watchPage } from "../page.js";
import { World, ids, named, settled } from "../testing/world.js";

const publicKey = Buffer.from([4, ...Array(64).fill(7)]).toString("base64url");
const endpoint = "https://updates.push.services.mozilla.com/wpush/v2/x";

/** A browser with a push service. */
function browserWith({ permission = "granted", present = null, length = 20 } = {}) {
  const log = [];
  const subscription = (key) => ({
    options: { applicationServerKey: key.buffer },
    toJSON: () => ({ endpoint: endpoint + "x".repeat(length), expirationTime: null, keys: { p256dh: "BB", auth: "AA" } }),
    unsubscribe: async () => void log.push("unsubscribe"),
  });
  const state = { present: present ? subscription(present) : null };
  const registration = {
    pushManager: {
      getSubscription: async () => state.present,
      subscribe: async (options) => {
        log.push(["subscribe", options]);
        return subscription(options.applicationServerKey);
      },
    },
  };
  const serviceWorker = new EventTarget();
  Object.assign(serviceWorker, {
    register: async (url, options) => (log.push(["register", url, options]), registration),
    ready: Promise.resolve(registration),
    getRegistration: async () => registration,
    startMessages: () => {},
  });
  return {
    log,
    navigator: { serviceWorker },
    PushManager: class {},
    Notification: { requestPermission: async () => permission },
    location: { hash: "", pathname: "/phone", search: "?a=1" },
    history: { replaceState: (_, __, url) => log.push(["replaceState", url]) },
  };
}

test("push is enabled: a subscription, and its registration with the cluster", async () => {
  const browser = browserWith();
  const world = new World();
  const { device, socket } = await world.attached();
  const options = { publicKey, worker: "/callmesh-sw.js", edges: ["https://one.example"], page: "/phone", deviceName: "Ann's browser" };
  const enabling = enablePush(device, options, browser);
  await settled();
  const { register } = socket.next("register");
  assert.equal(register.deviceName, "Ann's browser");
  assert.equal(register.alertToken.provider, "webPush");
  assert.deepEqual(Object.keys(JSON.parse(register.alertToken.token)), ["endpoint", "keys"]);
  assert.deepEqual(register.capabilities, ["ended", "missedNotice"]);
  socket.reply({ id: 2 }, { registered: { device: "ann-phone" } });
  assert.equal((await enabling).device, "ann-phone");
  const [[, url], [, subscribed]] = browser.log;
  const settings = JSON.parse(new URL(url).searchParams.get("callmesh"));
  assert.deepEqual(settings, { edges: ["https://one.example"], page: "/phone" });
  assert.equal(subscribed.userVisibleOnly, true);
  assert.equal(subscribed.applicationServerKey.length, 65);
});

test("a subscription is kept, unless the cluster's key is another one", async () => {
  for (const [present, expected] of [
    [new Uint8Array([4, ...Array(64).fill(7)]), ["register"]],
    [new Uint8Array([4, ...Array(64).fill(8)]), ["register", "unsubscribe", "subscribe"]],
  ]) {
    const browser = browserWith({ present });
    const device = { register: async () => ({}) };
    await enablePush(device, { publicKey }, browser);
    assert.deepEqual(browser.log.map((entry) => (Array.isArray(entry) ? entry[0] : entry)), expected);
  }
});

test("what keeps push from being enabled", async () => {
  const device = { register: async () => ({}) };
  await assert.rejects(enablePush(device, { publicKey }, { navigator: {} }), { code: 903 });
  await assert.rejects(enablePush(device, { publicKey }, browserWith({ permission: "denied" })), { code: 903 });
  await assert.rejects(enablePush(device, { publicKey: "AAAA" }, browserWith()), { code: 903 });
  await assert.rejects(enablePush(device, { publicKey }, browserWith({ length: 1000 })), { code: 301 });
});

test("push is disabled", async () => {
  const browser = browserWith({ present: new Uint8Array(65) });
  let isRemoved = false;
  await disablePush({ unregister: async () => (isRemoved = true) }, browser);
  assert.equal(isRemoved, true);
  assert.deepEqual(browser.log, ["unsubscribe"]);
});

test("a page that a notification opened answers its call, once", async () => {
  const browser = browserWith();
  browser.location.hash = `#callmesh=${encodeURIComponent(JSON.stringify({ action: "answer", call: ids.a, callee: "bob" }))}`;
  const world = new World();
  const device = world.device({ device: "bob-phone" });
  followPushes(device, browser);
  assert.deepEqual(browser.log, [["replaceState", "/phone?a=1"]]);
  await settled();
  const { attach } = await world.socket().attach({ user: "bob", device: "bob-phone" });
  assert.equal(attach.forCall, ids.a);
  world.socket().state(world.socket().next("query"), "ringing");
  world.socket().deliver({ callee: "bob", id: ids.a }, 10, { invite: { caller: { user: "ann" } } });
  assert.equal(named(device.heard, "incoming")[0].call.isWanted, true);
});

test("messages of the service worker", async () => {
  const browser = browserWith();
  browser.location.hash = "#callmesh=nonsense";
  const world = new World();
  const { device, socket } = await world.attached({ device: "bob-phone" });
  const off = followPushes(device, browser);
  const say = (callmesh) => {
    const event = new Event("message");
    event.data = { callmesh };
    browser.navigator.serviceWorker.dispatchEvent(event);
  };
  say({ action: "ring", call: ids.a, callee: "bob" });
  assert.deepEqual(socket.next("query").query.call, { callee: "bob", id: ids.a });
  say({ action: "ring" });
  say(undefined);
  say({ action: "dance", call: ids.b, callee: "bob" });
  off();
  say({ action: "ring", call: ids.b, callee: "bob" });
  socket.quiet();
});

test("the page tells its device when it is seen, hidden or online", () => {
  const target = new EventTarget();
  target.document = new EventTarget();
  target.document.visibilityState = "visible";
  target.navigator = { connection: new EventTarget() };
  const log = [];
  const device = { probe: () => log.push("probe"), setHidden: (isHidden) => log.push(isHidden) };
  const end = watchPage(device, target);
  target.document.visibilityState = "hidden";
  target.document.dispatchEvent(new Event("visibilitychange"));
  target.document.visibilityState = "visible";
  target.document.dispatchEvent(new Event("visibilitychange"));
  target.dispatchEvent(new Event("online"));
  target.navigator.connection.dispatchEvent(new Event("change"));
  end();
  target.dispatchEvent(new Event("online"));
  assert.deepEqual(log, [false, true, false, "probe", "probe", "probe"]);
  watchPage(device, {})();
});

test("a page that the browser keeps for a way back is away until somebody comes back to it", async () => {
  const world = new World();
  const { device, socket } = await world.attached();
  const target = new EventTarget();
  target.document = new EventTarget();
  watchPage(device, target);
  const say = (name, persisted) => target.dispatchEvent(Object.assign(new Event(name), { persisted }));
  const call = device.place("bob");
  socket.state(socket.next("place"), "placed");
  say("pagehide", false);
  assert.equal(device.state, "attached");
  say("pagehide", true);
  assert.deepEqual([device.state, socket.closedWith], ["waiting", 3000]);
  await world.pass(600_000);
  assert.deepEqual([world.sockets.length, call.state], [1, "placed"]);
  say("pageshow", true);
  await world.socket().attach();
  assert.deepEqual(world.socket().next("resume").resume.call, call.address);
});

test("a page that comes back while its token is renewed waits for it", async () => {
  const world = new World();
  let give;
  const tokens = [Promise.resolve("old"), new Promise((resolve) => (give = resolve))];
  const edges = ["wss://one.example", "wss://two.example"];
  const { device, socket } = await world.attached({ edges, getToken: () => tokens.shift() });
  socket.say({ notice: { kind: "goAway" } });
  await world.pass(0);
  socket.break(4008);
  device.suspend();
  device.probe();
  give("new");
  await settled();
  await world.pass(0);
  assert.equal((await world.socket().attach()).attach.token, "new");
});

test("one page holds the device's id at a time", async () => {
  const holders = [];
  const locks = {
    async request(name, _, hold) {
      assert.equal(name, "callmesh-device-ann");
      const former = holders.at(-1);
      const mine = (async () => {
        await former;
        await hold();
      })();
      holders.push(mine);
      return mine;
    },
  };
  const first = await holdDevice("ann", { locks });
  let second = null;
  void holdDevice("ann", { locks }).then((release) => (second = release));
  await settled();
  assert.equal(second, null);
  first();
  await settled();
  assert.notEqual(second, null);
  assert.equal(typeof (await holdDevice("ann", { locks: undefined })), "function");
  const gone = { request: async () => Promise.reject(new Error("aborted")) };
  await assert.rejects(holdDevice("ann", { locks: gone }), /aborted/);
});

/** Locks and channels of one browser, for several pages. */
function tabs() {
  const [holders, channels, log] = [[], new Set(), []];
  const locks = {
    async request(_, { ifAvailable }, hold) {
      if (ifAvailable && holders.length > 0) return hold(null);
      const before = Promise.all(holders);
      const mine = (async () => {
        await before;
        await hold({});
        holders.splice(holders.indexOf(mine), 1);
      })();
      holders.push(mine);
      return mine;
    },
  };
  class Channel {
    constructor(name) {
      log.push(name);
      channels.add(this);
    }
    postMessage(data) {
      for (const other of channels) if (other !== this) other.onmessage?.({ data });
    }
    close() {
      channels.delete(this);
    }
  }
  return { locks, Channel, channels, log };
}

test("a tab learns that another one is the phone, and takes its place when that one agrees", async () => {
  const { locks, Channel, channels, log } = tabs();
  let isFree = false;
  await holdDevice("ann", { locks, Channel, onAsked: () => isFree, onHeld: () => log.push("held") });
  let [ask, release] = [null, null];
  void holdDevice("ann", { locks, Channel, onHeld: (given) => (ask = given) }).then((given) => (release = given));
  await settled();
  assert.deepEqual(log, ["callmesh-device-ann", "callmesh-device-ann"]);
  ask();
  await settled();
  assert.equal(release, null, "a call goes on there");
  isFree = true;
  ask();
  await settled();
  assert.notEqual(release, null);
  release();
  assert.equal(channels.size, 0);
  const abort = { locks: { request: async () => Promise.reject(new Error("aborted")) }, Channel, onHeld() {} };
  await assert.rejects(holdDevice("ann", abort), /aborted/);
  assert.equal(channels.size, 0);
});

test("the device's id is drawn once", () => {
  const kept = new Map();
  const storage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value) };
  const id = deviceId("web", { storage, uuid: () => "1" });
  assert.equal(id, "web-1");
  assert.equal(deviceId("web", { storage, uuid: () => "2" }), id);
});
