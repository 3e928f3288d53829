import assert from "node:assert/strict";
import { test } from "node:test";
import { elsewhere, endedMs, initial, noticeMs, others, quietUntil, reduce } from "../model.js";
import { findCall, incoming, mainCall, otherCalls, soundOf, titleOf } from "../model-calls.js";
import { statusText, transferText } from "../words.js";

const contacts = ["ann", "bob", "carl"].map((user) => ({ user, name: user[0].toUpperCase() + user.slice(1) }));

/** Ann's phone, signed in, after these events. */
function ann(...events) {
  const model = { ...initial({ contacts, nowMs: 1000 }) };
  const signIn = [
    { type: "signingIn", user: "ann", name: "Ann", deviceName: "Ann's phone" },
    { type: "attached", user: "ann", device: "ann-1" },
  ];
  return [...signIn, ...events].reduce(reduce, model);
}

const bob = { user: "bob", device: "bob-1", deviceName: "Bob's iPad" };
const seen = (state, more) => ({ id: "1", callee: "bob", role: "caller", state, peer: null, ...more });
const of = (state, event, detail = {}, more = {}) => ({ type: "call", seen: seen(state, more), event, detail });
const dialled = { type: "dialled", id: "1", callee: "bob", video: true };
const fromBob = { id: "2", callee: "ann", role: "callee", peer: bob };
const rings = (more = {}, detail = { isQuiet: false }) => of("ringing", "incoming", detail, { ...fromBob, ...more });
const status = (model, id = "1") => statusText(model, findCall(model, id));
const ended = (reason, more = {}) => ({ reason, by: null, survivor: null, unreachable: null, error: null, ...more });

test("a call that is placed, from the click to the end", () => {
  let model = ann(dialled);
  assert.equal(status(model), "Waiting for the microphone…");
  const follows = (event, text) => {
    model = reduce(model, event);
    assert.equal(status(model), text);
    assert.equal(model.announcement, text);
  };
  follows(of("placed", "placed"), "Calling Bob…");
  follows(of("ringing", "ringing", { by: bob }, { peer: bob }), "Ringing on Bob's iPad");
  assert.equal(soundOf(model), "ringback");
  const carl = { user: "carl", device: "carl-1", deviceName: "Carl's phone" };
  follows(of("ringing", "ringing", { by: carl }), "Ringing at Carl, on Carl's phone");
  follows(of("answered", "answered", { by: bob }, { peer: bob }), "Connecting…");
  assert.equal(soundOf(model), null);
  follows({ type: "callPart", id: "1", mediaState: "connected" }, "In a call");
  assert.equal(findCall(model, "1").video, true);
  assert.equal(findCall(model, "1").answeredAtMs, 1000);
  follows({ type: "callPart", id: "1", isHeldByPeer: true }, "Bob has put you on hold");
  follows(of("ended", "ended", ended("hungUp", { by: bob }), { peer: bob }), "Bob hung up");
  assert.equal(mainCall(model).id, "1");
  model = reduce(model, { type: "tick", nowMs: 1000 + endedMs });
  assert.equal(mainCall(model), null);
});

test("ends as the caller reads them", () => {
  const end = (reason, more) => status(ann(dialled, of("ended", "ended", ended(reason, more))));
  assert.equal(end("declined", { by: bob }), "Bob declined");
  assert.equal(end("cancelled"), "You gave up before an answer");
  assert.equal(end("unanswered"), "Bob did not answer");
  assert.equal(end("busy"), "Bob is busy");
  assert.equal(end("unreachable", { unreachable: "noDevice" }), "Bob has never signed in");
  assert.equal(end("unreachable", { unreachable: "notWakeable" }), "Bob is not signed in at the moment");
  assert.equal(end("transferred", { by: { user: "carl" } }), "Handed over to Carl");
  assert.equal(end("moved", { by: { user: "ann", deviceName: "Ann's Mac" } }), "The call goes on on Ann's Mac");
  assert.equal(end("hungUp", { by: { user: "ann", device: "ann-1" } }), "You hung up");
  assert.equal(end("failed", { isLocal: true }), "The connection was lost");
  assert.equal(end("failed", { error: { code: 405 } }), "Too many calls to this user. Try again in a minute.");
});

test("ends as a device reads them that rang", () => {
  const end = (reason, more) => status(ann(rings(), of("ended", "ended", ended(reason, more), fromBob)), "2");
  const iPad = { user: "ann", device: "ann-2", deviceName: "Ann's iPad" };
  assert.equal(end("answeredElsewhere", { by: iPad }), "Answered on Ann's iPad");
  assert.equal(end("declined", { by: iPad }), "Declined on Ann's iPad");
  assert.equal(end("declined", { by: { user: "ann", device: "ann-1" } }), "You declined");
  assert.equal(end("cancelled", { by: bob }), "Bob gave up");
  assert.equal(end("unanswered"), "Missed call from Bob");
});

test("what rings, and how", () => {
  assert.equal(status(ann(rings()), "2"), "Bob is calling");
  assert.equal(status(ann(rings({ video: true })), "2"), "Bob is calling with video");
  assert.equal(status(ann(rings({ divertedBy: "carl", callee: "carl" })), "2"), "Bob is calling for Carl");
  assert.equal(status(ann(rings({ transferredBy: { user: "carl" } })), "2"), "Carl hands a call with Bob over to you");
  const model = ann(rings());
  assert.equal(soundOf(model), "ring");
  assert.equal(titleOf(model), "☎ Bob is calling");
  assert.equal(soundOf(reduce(model, { type: "callPart", id: "2", isLeaving: true })), null);
});

test("a second call waits beside the first one", () => {
  const model = ann(dialled, of("connected", "connected"), rings());
  assert.equal(soundOf(model), "waiting");
  assert.deepEqual(incoming(model).map(({ id }) => id), ["2"]);
  assert.equal(mainCall(model).id, "1");
  const held = { type: "callPart", id: "1", isHeld: true };
  const both = [held, of("connected", "connected", {}, fromBob)].reduce(reduce, model);
  assert.equal(mainCall(both).id, "2");
  assert.deepEqual(otherCalls(both).map(({ id }) => id), ["1"]);
  assert.equal(status(both), "On hold");
});

test("calls that cross: one screen, and no ringing", () => {
  let model = ann(dialled, of("placed", "placed"), rings({}, { isQuiet: true }));
  assert.deepEqual(incoming(model), []);
  assert.equal(soundOf(model), null);
  model = reduce(model, of("ended", "ended", ended("glare", { survivor: "2" })));
  assert.equal(status(model), "Calling Bob…");
  model = reduce(model, of("answered", "answered", {}, fromBob));
  model = reduce(model, { type: "replaced", from: "1", to: "2" });
  assert.deepEqual(model.calls.map(({ id, isQuiet }) => [id, isQuiet]), [["2", false]]);
});

test("calls that cross, and the other side gives up", () => {
  const quiet = rings({}, { isQuiet: true });
  const glare = of("ended", "ended", ended("glare", { survivor: "2" }));
  const over = of("ended", "ended", ended("cancelled"), fromBob);
  assert.deepEqual(ann(dialled, quiet, glare, over).calls, []);
  // It had stopped ringing here before.
  assert.deepEqual(ann(dialled, rings(), of("ended", "ended", ended("unanswered"), fromBob), glare, over).calls.map(({ id }) => id), ["2"]);
  // The other way round: the other side's call gives way.
  const model = ann(dialled, of("placed", "placed"), quiet, of("ended", "ended", ended("answeredElsewhere"), fromBob));
  assert.deepEqual(model.calls.map(({ id }) => id), ["1"]);
});

test("a transfer", () => {
  const asked = (detail) => {
    const asks = of("connected", "transfer", { to: "carl", by: null, ...detail });
    const model = ann(dialled, of("connected", "connected"), asks);
    return transferText(model, findCall(model, "1"));
  };
  assert.equal(asked({ reason: null }), "Handing over to Carl…");
  assert.equal(asked({ by: { user: "carl", deviceName: "Carl's phone" } }), "Ringing at Carl on Carl's phone");
  assert.equal(asked({ reason: "declined" }), "Carl declined. You still have the call.");
  const dialog = { type: "dialog", dialog: { kind: "transfer", id: "1" } };
  assert.equal(ann(dialled, dialog, of("ended", "ended", ended("hungUp"))).dialog, null);
});

test("an end that never rang here shows nothing", () => {
  assert.deepEqual(ann(of("ended", "ended", ended("unanswered"))).calls, []);
});

test("a call that rang here, was answered elsewhere, and is pulled here", () => {
  const elsewhereFirst = [rings(), of("lost", "ended", ended("answeredElsewhere"), fromBob)];
  const ongoing = { type: "ongoing", calls: [{ call: { id: "2", callee: "ann" }, device: "ann-2", user: "bob", sinceMs: 400 }] };
  const call = findCall(ann(...elsewhereFirst, ongoing, of("answered", "answered", {}, fromBob)), "2");
  assert.deepEqual([call.end, call.state, call.answeredAtMs], [null, "answered", 400]);
});

test("calls of other devices", () => {
  const entry = (id, device) => ({ call: { id, callee: "bob" }, device, user: "bob" });
  const model = ann({ type: "ongoing", calls: [entry("1", "ann-1"), entry("3", "ann-2")] });
  assert.deepEqual(elsewhere(model).map(({ call }) => call.id), ["3"]);
});

test("history: pages, and what is unread", () => {
  const page = (cursors, more) => ({ entries: cursors.map((cursor) => ({ cursor })), cursor: "c", unread: 2, ...more });
  let model = ann({ type: "history", page: page(["9", "8"], { next: "8" }), isOlder: false });
  assert.match(titleOf(model), /^\(2\) /);
  model = reduce(model, { type: "history", page: page(["8", "7"], { unread: 0 }), isOlder: true });
  assert.deepEqual(model.history.entries.map(({ cursor }) => cursor), ["9", "8", "7"]);
  assert.equal(model.history.next, "");
  assert.equal(titleOf(model), "Ann – Callmesh phone");
});

test("do not disturb ends with its time", () => {
  const model = ann({ type: "rules", rules: { doNotDisturb: { untilMs: 2000 } } });
  assert.deepEqual(quietUntil(model), { untilMs: 2000 });
  assert.equal(quietUntil(reduce(model, { type: "tick", nowMs: 2000 })), null);
  assert.deepEqual(quietUntil(ann({ type: "rules", rules: { doNotDisturb: {} } })), { untilMs: 0 });
  assert.equal(quietUntil(ann()), null);
});

test("messages: few, once each, for a time", () => {
  const say = (text) => ({ type: "notice", text });
  let model = ann(say("a"), say("b"), say("a"), say("c"), say("d"));
  assert.deepEqual(model.notices.map(({ text }) => text), ["a", "c", "d"]);
  model = reduce(model, { type: "noticeGone", id: model.notices[0].id });
  assert.equal(model.notices.length, 2);
  assert.deepEqual(reduce(model, { type: "tick", nowMs: 1000 + noticeMs }).notices, []);
});

test("contacts: sorted, each once, without the user", () => {
  const model = ann({ type: "contacts", contacts: [...[...contacts].reverse(), { user: "bob", name: "Bob" }] });
  assert.deepEqual(others(model).map(({ user }) => user), ["bob", "carl"]);
});
