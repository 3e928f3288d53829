// 200 to 215: a call rings at the client, until it is answered or ends.

import { ann, here, invite, lost, received, rings, tablet, won } from "./helpers.js";

/** The client declines or is busy. */
const leaves = (number, title, name, body, scope, reason) => ({
  number,
  title,
  section: "decline, busy",
  async play(t) {
    const link = await t.attached();
    await rings(t, link);
    await t.does(name, { call: received, ...body });
    const frame = await t.next(link, name);
    if ((frame[name].scope ?? "everywhere") !== scope) t.fail(`the scope is ${frame[name].scope}`);
    t.state(link, frame, "ended", { reason, by: here });
    // It has decided that itself, so it need not be told.
    await t.mayShow("stopped", { call: received.id });
  },
});

/** The cluster ends a call that rings. */
const stops = (number, reason, more = {}, race) => ({
  number,
  title: `A call that ends as ${reason} stops ringing, and says so`,
  section: "End reasons",
  race,
  async play(t) {
    const link = await t.attached();
    await rings(t, link);
    t.deliver(link, received, { stop: { reason, ...more } });
    const shown = await t.shows("stopped", { call: received.id, reason });
    if (!!shown.missed !== !!more.missed) t.fail(`missed is shown as ${shown.missed}`);
    if (more.by && shown.by?.device !== more.by.device) t.fail(`by is shown as ${JSON.stringify(shown.by)}`);
  },
});

export const called = [
  {
    number: 200,
    title: "An invite rings, with all that it says",
    section: "Deliveries",
    async play(t) {
      const link = await t.attached();
      const more = { caller: { ...ann, name: "Ann Lee" }, video: true, headers: [{ name: "X-Team", value: "support" }], pushData: '{"room":7}' };
      t.deliver(link, received, invite(t, more));
      const shown = await t.shows("rings", { call: received.id, video: true, description: "v=0 offer", pushData: '{"room":7}', headers: more.headers });
      if (shown.caller.user !== "ann" || shown.caller.name !== "Ann Lee") t.fail(JSON.stringify(shown.caller));
    },
  },
  {
    number: 201,
    title: "The device says that it alerts its user",
    section: "alerting",
    async play(t) {
      const link = await t.attached();
      await rings(t, link);
      await t.does("alerting", { call: received });
      t.state(link, await t.next(link, "alerting"), "ringing", { deadlineMs: t.clusterMs + 30_000 });
      await t.showsNo("stopped");
    },
  },
  {
    number: 202,
    title: "A reply to alerting that says ended stops the ringing",
    section: "alerting",
    race: "R2",
    async play(t) {
      const link = await t.attached();
      await rings(t, link);
      await t.does("alerting", { call: received });
      t.state(link, await t.next(link, "alerting"), "ended", { reason: "cancelled", by: ann, missed: true });
      await t.shows("stopped", { call: received.id, reason: "cancelled", missed: true });
    },
  },
  {
    number: 203,
    title: "The device answers and has won",
    section: "answer",
    async play(t) {
      const link = await t.attached();
      await rings(t, link);
      await t.does("answer", { call: received, description: "v=0 answer" });
      const answer = await t.next(link, "answer");
      if (answer.answer.description !== "v=0 answer") t.fail("the description is missing");
      await t.pass(1000);
      await t.showsNo("won");
      won(t, link, answer);
      await t.shows("won", { call: received.id });
      await t.does("connected", { call: received });
      t.reply(link, await t.next(link, "connected"), { done: {} });
    },
  },
  {
    number: 204,
    title: "Two devices answer at once, and the other one has won",
    section: "answer",
    race: "R1",
    async play(t) {
      const link = await t.attached();
      await rings(t, link);
      await t.does("answer", { call: received, description: "v=0 answer" });
      const answer = await t.next(link, "answer");
      t.deliver(link, received, { stop: { reason: "answeredElsewhere", by: tablet } });
      lost(t, link, answer, { reason: "answeredElsewhere", by: tablet });
      const shown = await t.shows("stopped", { call: received.id, reason: "answeredElsewhere" });
      if (shown.by?.device !== "bob-tablet") t.fail(`by is shown as ${JSON.stringify(shown.by)}`);
    },
  },
  {
    number: 205,
    title: "An answer that has not won, before the stop comes",
    section: "answer",
    race: "R1",
    async play(t) {
      const link = await t.attached();
      await rings(t, link);
      await t.does("answer", { call: received, description: "v=0 answer" });
      lost(t, link, await t.next(link, "answer"), { reason: "answeredElsewhere", by: tablet });
      await t.shows("stopped", { call: received.id, reason: "answeredElsewhere" });
      t.deliver(link, received, { stop: { reason: "answeredElsewhere", by: tablet } });
    },
  },
  {
    number: 206,
    title: "The caller cancels while the device answers",
    section: "answer",
    race: "R2",
    async play(t) {
      const link = await t.attached();
      await rings(t, link);
      await t.does("answer", { call: received, description: "v=0 answer" });
      const answer = await t.next(link, "answer");
      t.deliver(link, received, { stop: { reason: "cancelled", by: ann, missed: true } });
      lost(t, link, answer, { reason: "cancelled", by: ann, missed: true });
      await t.shows("stopped", { call: received.id, reason: "cancelled" });
      await t.showsNo("won");
    },
  },
  stops(207, "answeredElsewhere", { by: tablet }, "R1"),
  stops(208, "declined", { by: tablet }),
  stops(209, "cancelled", { by: ann, missed: true }),
  stops(210, "unanswered", { missed: true }),
  leaves(211, "The user declines on all devices", "decline", {}, "everywhere", "declined"),
  leaves(212, "The user declines on this device alone", "decline", { scope: "here" }, "here", "declined"),
  leaves(213, "The device is busy", "busy", {}, "everywhere", "busy"),
  {
    number: 214,
    title: "An invite that comes late, after the device declined, does not ring again",
    section: "What a client must do",
    race: "R7",
    async play(t) {
      const link = await t.attached();
      await rings(t, link);
      await t.does("decline", { call: received });
      t.state(link, await t.next(link, "decline"), "ended", { reason: "declined", by: here });
      await t.mayShow("stopped", { call: received.id });
      t.deliver(link, received, invite(t));
      await t.pass(500);
      await t.showsNo("rings");
    },
  },
  {
    number: 215,
    title: "An invite that comes late, after the stop, does not ring again",
    section: "What a client must do",
    race: "R3",
    async play(t) {
      const link = await t.attached();
      await rings(t, link);
      t.deliver(link, received, { stop: { reason: "cancelled", by: ann, missed: true } });
      await t.shows("stopped", { call: received.id });
      t.deliver(link, received, invite(t));
      await t.pass(500);
      await t.showsNo("rings");
    },
  },
];
