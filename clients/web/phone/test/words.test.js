import assert from "node:assert/strict";
import { test } from "node:test";
import { h } from "../dom.js";
import { entryText } from "../history-words.js";
import { initial, reduce } from "../model.js";
import { problemText } from "../streams.js";
import { clockText, durationText, tomorrowMorning, whenText } from "../times.js";
import { page } from "../view.js";
import { groupText } from "../words.js";

test("durations and times", () => {
  assert.equal(clockText(7_900), "0:07");
  assert.equal(clockText(3_723_000), "1:02:03");
  assert.equal(clockText(-5), "0:00");
  assert.equal(durationText(0), "0 seconds");
  assert.equal(durationText(61_000), "1 minute 1 second");
  assert.equal(durationText(3_600_000), "1 hour");
  const at = (...parts) => new Date(2026, ...parts).getTime();
  const now = at(2, 10, 15, 0);
  assert.equal(whenText(at(2, 10, 9, 5), now, "en-GB"), "09:05");
  assert.equal(whenText(at(2, 9, 9, 5), now, "en-GB"), "Yesterday, 09:05");
  // Versions of the locales differ in the comma.
  assert.match(whenText(at(2, 3, 9, 5), now, "en-GB"), /^Tue,? 3 Mar, 09:05$/);
  assert.equal(tomorrowMorning(now), at(2, 11, 8, 0));
  assert.equal(tomorrowMorning(at(2, 10, 7, 0)), at(2, 10, 8, 0));
});

test("entries of the history", () => {
  const model = initial({ contacts: [{ user: "bob", name: "Bob" }] });
  const text = (entry) => entryText(model, { user: "bob", placedMs: 0, endedMs: 65_000, ...entry });
  assert.equal(text({ missed: true, reason: "cancelled", video: true }), "Missed video call");
  const answered = { answeredMs: 60_000, deviceName: "Ann's iPad", reason: "hungUp" };
  assert.equal(text(answered), "Answered on Ann's iPad, 5 seconds");
  assert.equal(text({ placed: true, answeredMs: 60_000, reason: "hungUp" }), "Outgoing call, 5 seconds");
  assert.equal(text({ placed: true, reason: "declined" }), "Bob declined");
  assert.equal(text({ placed: true, reason: "unreachable" }), "Bob could not be reached");
  assert.equal(text({ reason: "declined" }), "You declined");
  assert.equal(text({ missed: true, wentOn: true, wentTo: ["bob", "carl"] }), "Missed call, went on to Bob and carl");
  assert.equal(text({ missed: true, wentOn: true, wentTo: ["bob"], answeredBy: "bob" }), "Missed call, Bob answered");
  assert.equal(text({ placed: true, answeredMs: 65_000, answeredBy: "bob", wentTo: ["bob"] }), "Bob answered, 0 seconds");
});

test("who rings when a group is called", () => {
  const contacts = [{ user: "bob", name: "Bob" }];
  const model = reduce(initial({ contacts }), { type: "signingIn", user: "ann", name: "Ann", deviceName: "" });
  const text = (...members) => groupText(model, { user: "team", members });
  assert.equal(text("ann", "bob", "carl", "dora"), "Bob, carl and dora ring together");
  assert.equal(text("ann", "bob"), "Bob rings");
  assert.equal(text("ann"), "");
  assert.equal(groupText(model, contacts[0]), "");
});

test("why there is no microphone", () => {
  assert.match(problemText("audio", { name: "NotAllowedError" }), /not allow the microphone. Nobody will hear you/);
  assert.equal(problemText("video", { name: "NotFoundError" }), "There is no camera. Nobody will see you.");
});

/** All texts of a drawn tree. */
const texts = (node) => (typeof node === "string" ? node : node.children.map(texts).join(" "));

test("the page is a function of the model", () => {
  const model = initial({ contacts: [{ user: "ann", name: "Ann" }, { user: "bob", name: "Bob" }] });
  const act = new Proxy({}, { get: () => () => {} });
  const media = () => ({ remote: null, local: null });
  const draw = (model) => page(model, act, media).map(texts).join(" ");
  assert.match(draw(model), /Sign in/);
  const signedIn = reduce(model, { type: "signingIn", user: "ann", name: "Ann", deviceName: "Ann's phone" });
  assert.match(draw(signedIn), /Connecting….*Bob/);
  const called = reduce(signedIn, { type: "dialled", id: "1", callee: "bob", video: false });
  assert.match(draw(called), /Waiting for the microphone/);
  const refused = reduce(signedIn, { type: "refused", text: "No." });
  assert.match(draw(refused), /No\..*Sign in/);
});

test("a description of an element leaves out what is not there", () => {
  assert.deepEqual(h("p", { key: "a", id: "x" }, null, false, ["t", [1]]).children, ["t", "1"]);
});
