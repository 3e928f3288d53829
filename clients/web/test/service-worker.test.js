import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import vm from "node:vm";
import { ids, settled } from "../testing/world.js";

const source = readFileSync(new URL("../callmesh-sw.js", import.meta.url), "utf8");
const now = 1_790_000_000_000;
const caller = { user: "ann", name: "Ann Lee" };
const ring = { v: 1, purpose: "ring", call: ids.a, callee: "bob", caller, sentAtMs: now, deadlineMs: now + 30_000, capability: "secret" };

/** A browser's service worker with fake time, and edges that a test scripts. */
class Worker {
  shown = new Map();
  shownCount = 0;
  endpoint = "https://fcm.googleapis.com/fcm/send/1";
  requests = [];
  opened = [];
  pages = [];
  badge = null;
  now = now;
  timers = [];
  answers = [];
  #handlers = new Map();

  constructor(settings = { edges: ["https://one.example", "wss://two.example"], page: "/phone" }, given = null) {
    const worker = this;
    const location = new URL(`https://app.example/callmesh-sw.js?callmesh=${encodeURIComponent(JSON.stringify(settings))}`);
    const self = {
      location,
      callmesh: given,
      addEventListener: (name, handler) => this.#handlers.set(name, handler),
      clients: { matchAll: async () => this.pages, openWindow: async (url) => void this.opened.push(url) },
      navigator: { setAppBadge: async (count) => void (this.badge = count), clearAppBadge: async () => void (this.badge = 0) },
      registration: {
        pushManager: { getSubscription: async () => this.endpoint && { endpoint: this.endpoint } },
        showNotification: async (title, options) => {
          this.shownCount += 1;
          this.shown.set(options.tag, { title, ...options, close: () => this.shown.delete(options.tag) });
        },
        getNotifications: async ({ tag }) => [...this.shown.values()].filter((shown) => shown.tag === tag),
      },
    };
    class FakeDate extends Date {
      static now = () => worker.now;
    }
    vm.runInNewContext(source, {
      self,
      URL,
      AbortController,
      Date: FakeDate,
      Math,
      encodeURIComponent,
      setTimeout: (callback, ms) => this.timers.push({ at: this.now + ms, callback }),
      clearTimeout: (timer) => void (this.timers[timer - 1].callback = () => {}),
      fetch: (url, options) => this.#fetch(url, options),
    });
  }

  async #fetch(url, options) {
    this.requests.push({ url, ...options });
    const answer = this.answers.shift() ?? { status: 200, body: { phase: "ended", reason: "declined" } };
    if (answer === "broken") throw new TypeError("network");
    const headers = new Headers(answer.headers);
    return { ok: answer.status === 200, status: answer.status, headers, json: async () => answer.body };
  }

  async push(note, text) {
    let done;
    this.#handlers.get("push")({
      data: { json: () => (text === undefined ? { callmesh: note } : JSON.parse(text)) },
      waitUntil: (promise) => (done = promise),
    });
    for (let turn = 0; turn < 3; turn += 1) await settled();
    // Not awaited: the work of a push that rings ends with the call.
    return done !== undefined;
  }

  async click(action) {
    const [notification] = this.shown.values();
    this.#handlers.get("notificationclick")({ notification, action, waitUntil: () => {} });
    await settled();
  }

  /** Lets time pass with the timers that are due. */
  async pass(ms) {
    const end = this.now + ms;
    for (;;) {
      const due = this.timers.filter((timer) => timer.at <= end && !timer.isDone).sort((a, b) => a.at - b.at)[0];
      if (!due) break;
      due.isDone = true;
      this.now = Math.max(this.now, due.at);
      due.callback();
      await settled();
    }
    this.now = end;
    await settled();
  }

  get notes() {
    return [...this.shown.values()];
  }
}

test("a call rings, with answer and decline", async () => {
  const worker = new Worker();
  await worker.push(ring);
  const [note] = worker.notes;
  assert.equal(note.title, "Incoming call");
  assert.equal(note.body, "Ann Lee");
  assert.equal(note.requireInteraction, true);
  assert.equal(note.actions.map(({ action }) => action).join(), "answer,decline");
  await worker.push({ ...ring, call: ids.b, video: true, caller: { user: "ann" } });
  assert.equal(worker.notes[1].title, "Incoming video call");
  assert.equal(worker.notes[1].body, "ann");
});

test("it stops at the deadline where no clean-up push comes", async () => {
  const worker = new Worker();
  await worker.push(ring);
  await worker.pass(31_999);
  assert.equal(worker.notes.length, 1);
  await worker.pass(2);
  assert.equal(worker.notes.length, 0);
});

test("a page that can be seen rings by itself; one that cannot is told as well", async () => {
  for (const [visibilityState, shown] of [
    ["visible", 0],
    ["hidden", 1],
  ]) {
    const worker = new Worker();
    const said = [];
    worker.pages = [{ visibilityState, url: "https://app.example/phone", postMessage: (message) => said.push(message) }];
    await worker.push(ring);
    assert.equal(worker.notes.length, shown);
    assert.equal(said[0].callmesh.action, "ring");
    assert.equal(said[0].callmesh.capability, undefined);
  }
});

test("decline: without a page, with the push's capability, at one edge after the other", async () => {
  const worker = new Worker();
  await worker.push(ring);
  worker.answers = ["broken", { status: 503, headers: { "retry-after": "1" } }, { status: 200, body: { phase: "ended" } }];
  await worker.click("decline");
  assert.equal(worker.notes.length, 0);
  await worker.pass(10_000);
  assert.equal(worker.requests.length, 3);
  for (const { url, method, body } of worker.requests) {
    assert.match(url, /^https:\/\/(one|two)\.example\/v1\/calls\/bob\/6ba7b810-9dad-11d1-80b4-00c04fd430c8\/decline$/);
    assert.equal(method, "POST");
    assert.deepEqual(JSON.parse(body), { capability: "secret" });
  }
  assert.notEqual(worker.requests[0].url, worker.requests[1].url);
  assert.deepEqual(worker.opened, []);
  await worker.pass(60_000);
  assert.equal(worker.requests.length, 3);
});

test("decline: an edge that refuses, and none that answers", async () => {
  const refused = new Worker();
  await refused.push(ring);
  refused.answers = [{ status: 401 }];
  await refused.click("decline");
  await refused.pass(100);
  assert.equal(refused.requests.length, 1);
  assert.equal(refused.notes[0].title, "The call could not be declined");

  const silent = new Worker();
  await silent.push(ring);
  silent.answers = Array(40).fill("broken");
  await silent.click("decline");
  await silent.pass(120_000);
  assert.ok(silent.requests.length >= 10 && silent.requests.length <= 12);
  assert.equal(silent.notes[0].title, "The call could not be declined");
});

test("ids in addresses are encoded", async () => {
  const worker = new Worker();
  await worker.push({ ...ring, callee: "bob / é" });
  await worker.click("decline");
  assert.match(worker.requests[0].url, /\/v1\/calls\/bob%20%2F%20%C3%A9\//);
});

test("answer: a new page gets the call in its address, an open one by a message", async () => {
  const worker = new Worker();
  await worker.push(ring);
  await worker.click("answer");
  const url = new URL(worker.opened[0]);
  assert.equal(url.pathname, "/phone");
  const news = JSON.parse(decodeURIComponent(url.hash.slice("#callmesh=".length)));
  assert.deepEqual(news, { action: "answer", call: ids.a, callee: "bob" });

  const other = new Worker();
  const said = [];
  await other.push(ring);
  other.pages = [
    { url: "https://app.example/help", postMessage: assert.fail },
    { url: "https://app.example/phone?tab=2", postMessage: (message) => said.push(message), focus: async () => said.push("focus") },
  ];
  await other.click("answer");
  assert.equal(said[0].callmesh.action, "answer");
  assert.equal(said[1], "focus");
  assert.deepEqual(other.opened, []);
});

test("a click on the call itself opens the page without answering", async () => {
  const worker = new Worker();
  await worker.push(ring);
  await worker.click("");
  assert.match(decodeURIComponent(worker.opened[0]), /"action":"ring"/);
});

test("the call ended elsewhere: a quiet note takes the place of the ringing one", async () => {
  for (const [reason, title] of [
    ["answeredElsewhere", "Answered on another device"],
    ["declined", "Declined on another device"],
    ["hungUp", "Call ended"],
  ]) {
    const worker = new Worker();
    await worker.push(ring);
    await worker.push({ ...ring, purpose: "ended", reason, by: { user: "bob", device: "t", deviceName: "Bob's tablet" } });
    assert.equal(worker.notes.length, 1);
    assert.equal(worker.notes[0].title, title);
    assert.equal(worker.notes[0].silent, true);
    assert.equal(worker.notes[0].body, "Bob's tablet");
  }
});

test("the quiet note can be left out", async () => {
  const worker = new Worker({ quietEnd: false });
  await worker.push(ring);
  await worker.push({ ...ring, purpose: "ended", reason: "answeredElsewhere" });
  assert.deepEqual(worker.notes, []);
});

test("each push shows something; a page that is seen and rings is enough, but at Safari", async () => {
  const apple = "https://web.push.apple.com/1";
  for (const [endpoint, isSeen, settings, expected] of [
    [undefined, false, {}, 3],
    [undefined, true, {}, 2],
    [apple, true, {}, 3],
    [apple, true, { quietEnd: false }, 3],
  ]) {
    const worker = new Worker(settings);
    if (endpoint) worker.endpoint = endpoint;
    if (isSeen) worker.pages = [{ visibilityState: "visible", url: "https://app.example/", postMessage() {} }];
    await worker.push(ring);
    if (endpoint && isSeen) assert.equal(worker.notes[0].silent, true, "the page rings");
    await worker.push({ ...ring, purpose: "missedNotice" });
    await worker.push({ ...ring, purpose: "ended", reason: "unanswered" });
    assert.equal(worker.shownCount, expected);
    assert.equal(worker.notes[0].title, "Missed call");
  }
});

test("a missed call: one note, whichever push comes first, and the badge", async () => {
  for (const order of [["ended", "missedNotice"], ["missedNotice", "ended"]]) {
    const worker = new Worker();
    await worker.push(ring);
    for (const purpose of order) await worker.push({ ...ring, purpose, reason: "unanswered", unread: 3 });
    assert.equal(worker.notes.length, 1);
    assert.equal(worker.notes[0].title, "Missed call");
    assert.equal(worker.notes[0].data.capability, undefined);
    assert.equal(worker.badge, 3);
    await worker.click("");
    assert.match(decodeURIComponent(worker.opened[0]), /"action":"missed"/);
  }
  const worker = new Worker();
  await worker.push({ ...ring, purpose: "missedNotice", unread: 0, video: true });
  assert.equal(worker.notes[0].title, "Missed video call");
  assert.equal(worker.badge, 0);
});

test("an old push asks whether the call still rings", async () => {
  for (const [answer, title] of [
    [{ phase: "ringing" }, "Incoming call"],
    [{ phase: "ended", reason: "unanswered", missed: true }, "Missed call"],
    [{ phase: "ended", reason: "answeredElsewhere" }, "Answered on another device"],
    [{ phase: "unknown" }, "Missed call"],
  ]) {
    const worker = new Worker();
    worker.now = now + 40_000;
    worker.answers = [{ status: 200, body: answer }];
    await worker.push(ring);
    assert.equal(worker.notes[0].title, title);
    assert.equal(worker.requests[0].headers.Authorization, "CallmeshPush secret");
    assert.equal(worker.requests[0].method, undefined);
  }
});

test("a clock that is behind does not make a push old, or a new one later", async () => {
  const worker = new Worker();
  worker.now = now - 3_600_000;
  await worker.push(ring);
  assert.equal(worker.notes[0].title, "Incoming call");
  assert.deepEqual(worker.requests, []);
  await worker.pass(33_000);
  assert.deepEqual(worker.notes, []);
});

test("a clock that is ahead does not end the ring: the cluster is asked", async () => {
  for (const [phase, isShown] of [["ringing", true], ["ended", false]]) {
    const worker = new Worker();
    worker.now = now + 20_000;
    worker.answers = [{ status: 200, body: { phase } }];
    await worker.push(ring);
    await worker.pass(11_999);
    assert.deepEqual(worker.requests, []);
    await worker.pass(2);
    assert.equal(worker.requests.length, 1);
    assert.equal(worker.notes.length > 0, isShown);
    await worker.pass(19_900);
    assert.equal(worker.notes.length > 0, isShown);
    await worker.pass(200);
    assert.deepEqual(worker.notes, []);
  }
});

test("a clock that is minutes ahead: it rings as long as the cluster says that it does", async () => {
  for (const [phase, ringsMs] of [["ringing", 31_900], ["ended", 16_900]]) {
    const worker = new Worker();
    worker.now = now + 300_000;
    worker.answers = [{ status: 200, body: { phase: "ringing", deadlineMs: ring.deadlineMs } }, { status: 200, body: { phase } }];
    await worker.push(ring);
    await worker.pass(ringsMs);
    assert.equal(worker.notes[0]?.title, "Incoming call");
    await worker.pass(300);
    assert.deepEqual(worker.notes, []);
    assert.equal(worker.requests.length, 2);
  }
});

test("a later version of payloads is not interpreted, and other pushes are left alone", async () => {
  const worker = new Worker();
  await worker.push({ ...ring, v: 2 });
  assert.equal(worker.notes[0].title, "Call ended");
  const other = new Worker();
  assert.equal(await other.push(null, '{"other":1}'), false);
  assert.equal(await other.push(null, "nonsense"), false);
  assert.deepEqual(other.notes, []);
});

test("texts and settings of another worker that loads this one", async () => {
  const worker = new Worker({}, { texts: { ring: "Anruf" }, icon: "/bell.png", edges: ["https://three.example"] });
  await worker.push(ring);
  assert.equal(worker.notes[0].title, "Anruf");
  assert.equal(worker.notes[0].icon, "/bell.png");
  assert.equal(worker.notes[0].actions[0].title, "Answer");
  await worker.click("decline");
  assert.match(worker.requests[0].url, /^https:\/\/three\.example\//);
});

test("another page of the origin that is seen does not ring", async () => {
  const worker = new Worker();
  worker.pages = [{ visibilityState: "visible", url: "https://app.example/crm", postMessage() {} }];
  await worker.push(ring);
  assert.equal(worker.notes.length, 1);
});
