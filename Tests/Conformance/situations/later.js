// 800 to 819: what later versions of the protocol may add, and other spellings of the same.

import { ann, calls, candidate, ids, invite, placed, received, rings, signal, talks } from "./helpers.js";

export const later = [
  {
    number: 800,
    title: "Members that the client does not know are ignored, wherever they are",
    section: "Frames",
    async play(t) {
      t.start();
      const link = await t.attaches({ info: { weather: "fine" } });
      const more = { mood: { is: "good" }, caller: { ...ann, hat: true }, headers: [{ name: "X-Team", value: "support", colour: "red" }], signals: [{ ...candidate(1), size: 7 }] };
      t.deliver(link, received, { ...invite(t, more), urgency: 3 });
      const shown = await t.shows("rings", { call: received.id });
      if (shown.caller.user !== "ann") t.fail(JSON.stringify(shown.caller));
      await t.shows("signal", { call: received.id, body: "candidate:1" });
    },
  },
  {
    number: 801,
    title: "A delivery of a kind that the client does not know is acknowledged, and changes nothing",
    section: "What a client must do",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      t.deliver(link, received, { applause: { by: ann } });
      await t.pass(300);
      t.deliver(link, received, signal(1));
      await t.shows("signal", { call: received.id });
      if (!link.isOpen) t.fail("the client leaves");
    },
  },
  {
    number: 802,
    title: "A frame of a kind that the client does not know is ignored",
    section: "Frames",
    async play(t) {
      const link = await t.attached();
      t.send(link, { weather: { fine: true } });
      await rings(t, link);
      if (t.links.length > 1) t.fail("the client leaves");
    },
  },
  {
    number: 803,
    title: "A signal of a kind that the client does not know is acknowledged, and the next one is shown",
    section: "Deliveries",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      t.deliver(link, received, { signal: { index: 1, kind: "gesture", body: "wave" } });
      t.deliver(link, received, signal(2));
      await t.shows("signal", { call: received.id, body: "candidate:2" });
    },
  },
  {
    number: 804,
    title: "A notice of a kind that the client does not know is ignored",
    section: "Notices",
    async play(t) {
      const link = await t.attached();
      t.send(link, { notice: { kind: "eclipse", message: "It gets dark." } });
      await rings(t, link);
      if (t.links.length > 1) t.fail("the client leaves");
    },
  },
  {
    number: 805,
    title: "A call that ends for a reason that the client does not know ends all the same",
    section: "End reasons",
    async play(t) {
      const link = await t.attached();
      await rings(t, link);
      t.deliver(link, received, { stop: { reason: "eclipsed", unreachable: "moonless" } });
      await t.shows("stopped", { call: received.id }, { within: 3000 });
      if (t.links.length > 1) t.fail("the client leaves");
    },
  },
  {
    number: 806,
    title: "An error with a code that the client does not know fails its command, and no other",
    section: "Errors",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      await t.does("transfer", { call: received, to: "carl" });
      t.refuse(link, await t.next(link, "transfer"), 499);
      await t.shows("failed", { of: "transfer" });
      await t.pass(20_000);
      await t.quiet(link);
      await t.showsNo("stopped");
    },
  },
  {
    number: 807,
    title: "An error with a code that the client does not know, and retryAfterMs",
    section: "Errors",
    async play(t) {
      const link = await t.attached();
      await t.does("place", { call: placed, description: "v=0 offer" });
      t.refuse(link, await t.next(link, "place"), 499);
      await t.shows("failed", { of: "place" });
      await t.mayShow("stopped", { call: placed.id });
    },
  },
  {
    number: 808,
    title: "A call id in upper case is the same call",
    section: "Frames",
    encodings: ["json"],
    async play(t) {
      const link = await t.attached();
      await calls(t, link);
      const version = t.version(placed.id);
      const upper = { callee: "ann", id: ids.b.toUpperCase() };
      t.deliver(link, upper, signal(1), { version });
      await t.shows("signal", { call: placed.id, body: "candidate:1" });
    },
  },
  {
    number: 809,
    title: "null, and what is empty, is the same as absent",
    section: "Frames",
    encodings: ["json"],
    async play(t) {
      const link = await t.attached();
      t.deliver(link, received, invite(t, { video: null, headers: [], signals: null, pushData: "", divertedBy: null, transferredBy: null, consulted: null }), { after: null });
      const shown = await t.shows("rings", { call: received.id });
      if (shown.divertedBy || shown.transferredBy) t.fail(JSON.stringify(shown));
      t.deliver(link, received, { stop: { reason: "cancelled", by: null, missed: null, survivor: null } });
      await t.shows("stopped", { call: received.id, reason: "cancelled" });
    },
  },
  {
    number: 810,
    title: "Text is UTF-8, and comes through as it is",
    section: "Frames",
    async play(t) {
      const link = await t.attached();
      await rings(t, link, received, { caller: { ...ann, name: "Ånn 李 👩‍🚀" }, description: "v=0 “é”" });
      await t.does("answer", { call: received, description: "v=0 \"\\\u2028 ü 🎉" });
      const answer = await t.next(link, "answer");
      if (answer.answer.description !== "v=0 \"\\\u2028 ü 🎉") t.fail(JSON.stringify(answer.answer.description));
    },
  },
  {
    number: 811,
    title: "A reply that says ended, for a reason that the client does not know, ends the call all the same",
    section: "End reasons",
    async play(t) {
      const link = await t.attached();
      await rings(t, link);
      await t.does("alerting", { call: received });
      t.state(link, await t.next(link, "alerting"), "ended", { reason: "eclipsed" });
      await t.shows("stopped", { call: received.id }, { within: 3000 });
      if (t.links.length > 1) t.fail("the client leaves");
    },
  },
];
