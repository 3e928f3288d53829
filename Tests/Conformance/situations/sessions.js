// 130 to 159: what ends, replaces, renews or moves a session that is attached.

import { answers, candidate, invite, placed, places, received, rings } from "./helpers.js";

const goAway = (more = {}) => ({ notice: { kind: "goAway", message: "This edge goes away.", ...more } });
const replaced = { notice: { kind: "sessionReplaced", message: "This device has attached with another session." } };

/** A session that ended with its token. */
const needsToken = (number, code, why) => ({
  number,
  title: `A session that ends with ${code} (${why}) is begun again with a new token`,
  section: "Close codes",
  async play(t) {
    (await t.attached()).close(code);
    await t.shows("needsToken");
    await t.does("token", { token: "token-2" });
    const link = await t.attaches({ within: 60_000 });
    if (link.attach.token !== "token-2") t.fail(`the next attach has ${link.attach.token}`);
  },
});

export const sessions = [
  {
    number: 130,
    title: "A device that was replaced by another copy does not come back",
    section: "Notices",
    async play(t) {
      const link = await t.attached();
      t.send(link, replaced);
      link.close(4000);
      await t.shows("refused");
      await t.staysAway(180_000);
    },
  },
  {
    number: 131,
    title: "A device whose own late attach replaced its session comes back",
    section: "Notices",
    async play(t) {
      t.start();
      const first = await t.connects();
      await t.next(first, "attach");
      first.break();
      const link = await t.attaches({ within: 3000 });
      // The attach that was never answered has arrived after all.
      t.send(link, replaced);
      link.close(4000);
      await rings(t, await t.attaches({ within: 5000 }));
    },
  },
  {
    number: 132,
    title: "A device that the app's server removed (4001) does not come back",
    section: "Close codes",
    async play(t) {
      const link = await t.attached();
      t.send(link, { notice: { kind: "deviceRemoved", message: "Removed." } });
      link.close(4001);
      await t.staysAway(180_000);
      await t.mayShow("refused");
    },
  },
  {
    number: 133,
    title: "deviceRemoved alone ends neither the session nor makes the device register again",
    section: "Notices",
    async play(t) {
      const link = await t.attached();
      t.send(link, { notice: { kind: "deviceRemoved", message: "Replaced." } });
      await t.shows("notice", { kind: "deviceRemoved" });
      await t.pass(5000);
      await t.quiet(link);
      await rings(t, link);
    },
  },
  {
    number: 134,
    title: "tokenExpires gets a new token, which renews the session and serves the next attach",
    section: "renew",
    async play(t) {
      const link = await t.attached();
      t.send(link, { notice: { kind: "tokenExpires", message: "In 60 s." } });
      await t.shows("needsToken");
      await t.does("token", { token: "token-2" });
      const renew = await t.next(link, "renew");
      if (renew.renew.token !== "token-2") t.fail(`renew has ${renew.renew.token}`);
      t.reply(link, renew, { done: {} });
      await t.settle();
      link.break();
      const next = await t.attaches({ within: 3000 });
      if (next.attach.token !== "token-2") t.fail(`the next attach has ${next.attach.token}`);
    },
  },
  {
    number: 135,
    title: "A renewal that is refused leaves the session as it is",
    section: "renew",
    async play(t) {
      const link = await t.attached();
      t.send(link, { notice: { kind: "tokenExpires", message: "In 60 s." } });
      await t.shows("needsToken");
      await t.does("token", { token: "of-another-user" });
      t.refuse(link, await t.next(link, "renew"), 202);
      await t.pass(2000);
      if (!link.isOpen) t.fail("the client leaves");
      await rings(t, link);
    },
  },
  needsToken(136, 4008, "the token expired"),
  needsToken(137, 4009, "the token was revoked"),
  {
    number: 138,
    title: "goAway: the device attaches at another edge before it leaves this one",
    section: "Notices",
    async play(t) {
      const first = await t.attached();
      t.send(first, goAway());
      const link = await t.connects({ within: 3000, edge: t.edges[1] });
      const attach = await t.next(link, "attach");
      if (!first.isOpen) t.fail("the former connection was closed before the attach");
      await rings(t, first);
      t.reply(link, attach, { attached: t.sessionInfo() });
      await t.soon(() => !first.isOpen, "the former connection stays open");
      if (first.closedWith === 1000) t.fail("it is closed with 1000, which means that the device detaches");
      t.deliver(link, received, { stop: { reason: "cancelled", missed: true } });
      await t.shows("stopped", { call: received.id, reason: "cancelled" });
    },
  },
  {
    number: 139,
    title: "goAway with retryAfterMs: the device moves then, and not before",
    section: "Notices",
    async play(t) {
      t.send(await t.attached(), goAway({ retryAfterMs: 10_000 }));
      await t.staysAway(9500);
      await t.attaches({ within: 8000, edge: t.edges[1] });
    },
  },
  {
    number: 140,
    title: "sessionReplaced for a session that the device leaves is no reason to stop",
    section: "Notices",
    async play(t) {
      const first = await t.attached();
      t.send(first, goAway());
      const link = await t.connects({ within: 3000 });
      const attach = await t.next(link, "attach");
      t.send(first, replaced);
      first.close(4000);
      await t.settle();
      t.reply(link, attach, { attached: t.sessionInfo() });
      await rings(t, link);
      await t.showsNo("refused");
    },
  },
  {
    number: 141,
    title: "A call that rings while the device moves rings once, and is answered on the new connection",
    section: "Notices",
    race: "R11",
    async play(t) {
      const first = await t.attached();
      await rings(t, first);
      t.send(first, goAway());
      const link = await t.attaches({ within: 3000 });
      t.deliver(link, received, invite(t, { signals: [candidate(1)] }));
      await t.shows("signal", { call: received.id, body: "candidate:1" });
      await answers(t, link);
    },
  },
  {
    number: 142,
    title: "After a move a caller's device resumes its calls",
    section: "Notices",
    race: "R20",
    async play(t) {
      const first = await t.attached();
      await places(t, first);
      t.send(first, goAway());
      const link = await t.attaches({ within: 3000 });
      const resume = await t.next(link, "resume");
      if (resume.resume.call.id !== placed.id) t.fail("it resumes another call");
      t.state(link, resume, "ringing", { deadlineMs: t.clusterMs + 20_000 });
    },
  },
  {
    number: 143,
    title: "A place that an edge refuses as draining is sent to another one under its id",
    section: "What a client must do",
    race: "R20",
    async play(t) {
      const first = await t.attached();
      await t.does("place", { call: placed, description: "v=0 offer" });
      const place = await t.next(first, "place");
      t.refuse(first, place, 502);
      const link = await t.attaches({ within: 5000, edge: t.edges[1] });
      const again = await t.next(link, "place", { within: 3000 });
      if (again.id !== place.id) t.fail("the place has another id");
      t.state(link, again, "placed", { deadlineMs: t.clusterMs + 30_000 });
    },
  },
  {
    number: 144,
    title: "Notices of tokens that others took end nothing",
    section: "Notices",
    async play(t) {
      const link = await t.attached();
      t.send(link, { notice: { kind: "tokenTaken", message: "Another device has it." } });
      await t.shows("notice", { kind: "tokenTaken" });
      await t.quiet(link);
      await rings(t, link);
    },
  },
];
