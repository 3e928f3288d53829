// 700 to 719: what the cluster keeps of a user.

import { received } from "./helpers.js";

const entry = (call, device = "bob-tablet") => ({ call, placed: false, device, user: "ann", name: "Ann Lee", sinceMs: 1_790_000_002_240 });

/** A frame about the user's ongoing calls. */
function ongoing(t, link, version, list, mustNotAck = false) {
  t.rules.ongoing(link, version, t.now, mustNotAck);
  t.send(link, { ongoing: { version, calls: list } });
}

/** A command about the user, whose reply goes to the app. */
const asks = (number, title, section, name, body, reply, isRight) => ({
  number,
  title,
  section,
  async play(t) {
    const link = await t.attached();
    await t.does(name, body);
    const frame = await t.next(link, name);
    for (const [key, value] of Object.entries(body)) {
      if (JSON.stringify(frame[name][key]) !== JSON.stringify(value)) t.fail(`${key} is ${JSON.stringify(frame[name][key])}`);
    }
    t.reply(link, frame, reply);
    const { value } = await t.shows("result", { of: name });
    if (!isRight(value)) t.fail(`the app gets ${JSON.stringify(value)}`);
  },
});

const alertToken = { provider: "fcm", topic: "example-project", token: "dGhpcyBpcyBhIHRva2Vu:APA91b" };
const registered = { registered: { device: "bob-phone", expiresAtMs: 1_797_776_000_000, removedDevices: ["bob-old-tablet"], capabilities: ["missedNotice"] } };
const historyEntry = { cursor: "3f", call: received, user: "ann", placedMs: 1_790_000_000_020, endedMs: 1_790_000_030_020, reason: "unanswered", missed: true };
const page = { history: { entries: [historyEntry], next: "2z", cursor: "3g", unread: 1, readUpTo: "2z" } };
const rules = { rules: { onBusy: { users: ["desk"] }, noAnswerSeconds: 25, firstSeconds: 10, changedAtMs: 1_790_000_000_000 } };

export const userData = [
  {
    number: 700,
    title: "The user's ongoing calls are shown as the reply to the attach and the frames have them",
    section: "Ongoing calls",
    needs: ["ongoing"],
    async play(t) {
      t.start({ ongoing: true });
      const link = await t.attaches({ info: { ongoing: { version: 10, calls: [entry(received)] } } });
      if (link.attach.ongoing !== true) t.fail("the attach does not ask for them");
      const { calls } = await t.shows("ongoing");
      if (calls?.[0]?.call.id !== received.id) t.fail(JSON.stringify(calls));
      ongoing(t, link, 11, []);
      const after = await t.shows("ongoing");
      if (after.calls?.length) t.fail(JSON.stringify(after.calls));
    },
  },
  {
    number: 701,
    title: "A state of the ongoing calls that is out of date is neither shown nor acknowledged",
    section: "Ongoing calls",
    needs: ["ongoing"],
    async play(t) {
      t.start({ ongoing: true });
      const link = await t.attaches();
      ongoing(t, link, 20, [entry(received)]);
      await t.shows("ongoing");
      ongoing(t, link, 19, [], true);
      await t.pass(300);
      await t.showsNo("ongoing");
      ongoing(t, link, 20, [entry(received)]);
      await t.pass(300);
      await t.showsNo("ongoing");
    },
  },
  {
    number: 702,
    title: "A new session whose attach shows no ongoing calls: the user is in none",
    section: "Ongoing calls",
    needs: ["ongoing"],
    async play(t) {
      t.start({ ongoing: true });
      const first = await t.attaches();
      ongoing(t, first, 20, [entry(received)]);
      await t.shows("ongoing");
      first.break();
      const link = await t.attaches({ within: 3000 });
      const { calls } = await t.shows("ongoing");
      if (calls?.length) t.fail(JSON.stringify(calls));
      // The versions are of a connection: a lower one is new here.
      ongoing(t, link, 5, [entry(received)]);
      await t.shows("ongoing");
    },
  },
  {
    number: 703,
    title: "A change of the history is shown once, and not acknowledged",
    section: "History changes",
    needs: ["history"],
    async play(t) {
      t.start({ history: true });
      const link = await t.attaches();
      if (link.attach.history !== true) t.fail("the attach does not ask for it");
      t.send(link, { history: { cursor: "3g", unread: 1 } });
      await t.shows("history", { cursor: "3g", unread: 1 });
      t.send(link, { history: { cursor: "3g", unread: 1 } });
      await t.pass(300);
      await t.showsNo("history");
      if (link.acks.length > 0) t.fail("it is acknowledged");
    },
  },
  {
    number: 710,
    title: "Credentials for TURN servers are had from the reply to the attach, and new ones from a frame",
    section: "Relays",
    needs: ["relays"],
    async play(t) {
      const credentials = (password) => ({ urls: ["turn:turn.example:3478"], username: "1790003600:bob", password, expiresAtMs: t.clusterMs + 3_600_000 });
      t.start({ relays: true });
      const link = await t.attaches({ info: { relays: credentials("first") } });
      if (link.attach.relays !== true) t.fail("the attach does not ask for them");
      await t.shows("relays", { password: "first", username: "1790003600:bob" });
      t.send(link, { relays: credentials("second") });
      await t.shows("relays", { password: "second" });
      await t.pass(300);
      if (link.acks.length > 0) t.fail("they are acknowledged");
    },
  },
  asks(704, "The device registers its push token", "register, unregister", "register", { alertToken, capabilities: ["missedNotice"] }, registered,
    (value) => value?.removedDevices?.[0] === "bob-old-tablet"),
  asks(705, "The device removes another registration", "register, unregister", "unregister", { device: "bob-old-phone" }, { done: {} }, () => true),
  asks(706, "The app reads the history", "history, historyRead", "history", { before: "3h", limit: 20 }, page,
    (value) => value?.entries?.[0]?.cursor === "3f" && value.next === "2z" && value.unread === 1),
  asks(707, "The user has read the history", "history, historyRead", "historyRead", { upTo: "3f" }, { history: { cursor: "3h", readUpTo: "3f" } },
    (value) => value?.readUpTo === "3f" && !value.unread),
  asks(708, "The app reads the user's rules", "rules, setRules", "rules", {}, rules, (value) => value?.onBusy?.users?.[0] === "desk" && value.noAnswerSeconds === 25),
  asks(709, "The user forwards calls", "rules, setRules", "setRules", { onBusy: { users: ["desk"] }, noAnswerSeconds: 25 }, rules, (value) => value?.noAnswerSeconds === 25),
];
