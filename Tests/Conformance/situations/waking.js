// 240 to 259: calls that a push announced.

import { ann, invite, received, rings, tablet } from "./helpers.js";

/** The state of the call as a device that attaches for it is told. */
const answered = (number, title, phase, more, shown, race) => ({
  number,
  title,
  section: "Attaching for a call",
  race,
  needs: ["wake"],
  async play(t) {
    t.start();
    await t.does("wake", { call: received });
    // The attach may have been on its way before the push came: then the device asks.
    const link = await t.connects();
    const attach = await t.next(link, "attach");
    const state = { call: received, phase, version: phase === "unknown" ? 0 : t.version(received.id), ...more };
    const isFor = attach.attach.forCall === received.id;
    t.reply(link, attach, { attached: { ...t.sessionInfo(), ...(isFor ? { forCall: state } : {}) } });
    if (!isFor) t.reply(link, await t.next(link, "query"), { call: state });
    if (shown) await t.shows("stopped", { call: received.id, ...shown });
    else await t.settle();
    return link;
  },
});

const rung = answered(240, "A push, and the call still rings: the invite rings", "ringing", { deadlineMs: 1_790_000_030_000 }, null, "R5");

export const waking = [
  {
    ...rung,
    async play(t) {
      const link = await rung.play(t);
      await rings(t, link);
    },
  },
  answered(241, "A push, and another device has answered", "ended", { reason: "answeredElsewhere", by: tablet }, { reason: "answeredElsewhere" }, "R5"),
  answered(242, "A push, and the user has declined elsewhere", "ended", { reason: "declined", by: tablet }, { reason: "declined" }, "R5"),
  answered(243, "A push, and the caller has cancelled: it never rings", "ended", { reason: "cancelled", by: ann, missed: true }, { reason: "cancelled" }, "R3"),
  answered(244, "A push, and nobody has answered", "ended", { reason: "unanswered", missed: true }, { reason: "unanswered" }, "R5"),
  answered(245, "A push that comes when the call is forgotten", "unknown", {}, {}, "R4"),
  {
    number: 246,
    title: "A push for a call that rings already changes nothing",
    section: "Attaching for a call",
    race: "R6",
    needs: ["wake"],
    async play(t) {
      const link = await t.attached();
      await rings(t, link);
      await t.does("wake", { call: received });
      for (const frame of await t.commands(link)) {
        if (!frame.query) t.fail(`it sends ${JSON.stringify(frame)}`);
        t.state(link, frame, "ringing", { deadlineMs: t.clusterMs + 30_000 });
      }
      await t.pass(500);
    },
  },
  {
    number: 247,
    title: "A push to a device that is attached: the state of the call is asked for or the invite comes, and it rings once",
    section: "Attaching for a call",
    race: "R5",
    needs: ["wake"],
    async play(t) {
      const link = await t.attached();
      await t.does("wake", { call: received });
      t.deliver(link, received, invite(t));
      for (const frame of await t.commands(link)) t.state(link, frame, "ringing", { deadlineMs: t.clusterMs + 30_000 });
      await t.shows("rings", { call: received.id });
    },
  },
  {
    number: 250,
    title: "A push, and the call rings, but no invite comes: the device asks again until the call is over",
    section: "Attaching for a call",
    needs: ["wake"],
    async play(t) {
      const link = await rung.play(t);
      // Another process of the phone has declined by HTTP meanwhile.
      for (let asked = 0; asked < 2; asked++) {
        const query = await t.next(link, "query", { within: 20_000 });
        t.state(link, query, "ringing", { deadlineMs: t.clusterMs + 30_000 });
      }
      await t.showsNo("stopped");
      const query = await t.next(link, "query", { within: 20_000 });
      t.state(link, query, "ended", { reason: "declined", by: tablet });
      await t.shows("stopped", { call: received.id, reason: "declined" });
    },
  },
  {
    number: 248,
    title: "A push ends the wait for the next attempt to connect",
    section: "Attaching for a call",
    needs: ["wake"],
    async play(t) {
      for (const edge of t.edges) edge.isDown = true;
      t.start();
      await t.pass(40_000);
      for (const edge of t.edges) edge.isDown = false;
      const before = t.now;
      await t.does("wake", { call: received });
      const link = await t.connects({ within: 1000 });
      const attach = await t.next(link, "attach");
      if (t.now - before > 1000) t.fail("it waits on");
      t.reply(link, attach, { attached: { ...t.sessionInfo(), forCall: { call: received, phase: "ended", version: 5, reason: "unanswered", missed: true } } });
      await t.shows("stopped", { call: received.id, reason: "unanswered" });
    },
  },
];
