// 100 to 120: how a client connects and attaches, and what it does when that fails.

import { rings } from "./helpers.js";

/** Attaches are refused with this code. @returns the connection that was refused */
async function refused(t, code, more = {}) {
  t.start();
  const link = await t.connects();
  t.refuse(link, await t.next(link, "attach"), code, more);
  await t.settle();
  return link;
}

/** An attach that no other attempt can help: the client says so, and stays away. */
const final = (number, code, name) => ({
  number,
  title: `An attach that is refused as ${name} (${code}) is not tried again`,
  section: "Authentication",
  async play(t) {
    await refused(t, code);
    await t.shows("refused", { code });
    await t.staysAway(120_000);
  },
});

/** A token that a new one can replace. */
const renewable = (number, code, name) => ({
  number,
  title: `An attach that is refused as ${name} (${code}) is tried again with a new token`,
  section: "Authentication",
  async play(t) {
    await refused(t, code);
    await t.shows("needsToken");
    await t.does("token", { token: "token-2" });
    const link = await t.attaches({ within: 60_000 });
    if (link.attach.token !== "token-2") t.fail(`the next attach has ${link.attach.token}`);
  },
});

/** The edge closes a session with a code after which the device comes back. */
const comesBack = (number, code, why) => ({
  number,
  title: `A session that the edge closes with ${code} (${why}) is begun again`,
  section: "Close codes",
  async play(t) {
    (await t.attached()).close(code);
    const link = await t.attaches({ within: 5000 });
    await rings(t, link);
  },
});

export const connection = [
  {
    number: 100,
    title: "The attach is the first frame, with the token, the device and its name",
    section: "attach",
    async play(t) {
      const { attach } = await t.attached({ token: "token-of-bob" });
      const { token, device, deviceName } = attach;
      if (token !== "token-of-bob" || device !== "bob-phone" || deviceName !== "Bob's phone") t.fail(JSON.stringify(attach));
      await t.shows("attached");
    },
  },
  {
    number: 101,
    title: "A command waits until the attach is answered",
    section: "attach",
    async play(t) {
      t.start();
      const link = await t.connects();
      const attach = await t.next(link, "attach");
      await t.does("place", { call: { callee: "ann", id: "6ba7b810-9dad-11d1-80b4-00c04fd430c8" } });
      await t.pass(3000);
      await t.quiet(link);
      t.reply(link, attach, { attached: t.sessionInfo() });
      await t.next(link, "place");
    },
  },
  {
    number: 102,
    title: "A connection that breaks is begun again within a second, with a new attach",
    section: "Connecting",
    async play(t) {
      const first = await t.attached();
      first.break();
      await t.shows("detached");
      const link = await t.attaches({ within: 1500 });
      if (!(link.attachId > first.attachId)) t.fail("the new attach has no new id");
      await t.shows("attached");
    },
  },
  {
    number: 103,
    title: "When an attempt fails the next edge is tried",
    section: "Connecting",
    async play(t) {
      t.edges[0].isDown = true;
      t.start();
      await t.attaches({ within: 3000, edge: t.edges[1] });
    },
  },
  {
    number: 104,
    title: "Attempts that fail come more and more rarely, and never more than 15 s apart",
    section: "Connecting",
    async play(t) {
      for (const edge of t.edges) edge.isDown = true;
      t.start();
      await t.pass(120_000);
      const gaps = t.attempts.slice(1).map(({ at }, index) => at - t.attempts[index].at);
      if (gaps.length < 8 || gaps.length > 60) t.fail(`${gaps.length + 1} attempts in two minutes`);
      if (Math.max(...gaps) > 16_000) t.fail(`${Math.max(...gaps)} ms between two attempts`);
      if (Math.max(...gaps.slice(0, 2)) > 1500) t.fail("the first attempts are far apart");
      for (const edge of t.edges) edge.isDown = false;
      await t.attaches({ within: 20_000 });
    },
  },
  {
    number: 105,
    title: "An edge that refuses the upgrade with 503 is left for another one",
    section: "Close codes",
    async play(t) {
      t.edges[0].refusal = 503;
      t.start();
      await t.attaches({ within: 5000, edge: t.edges[1] });
    },
  },
  {
    number: 106,
    title: "An attach without an answer is given up after 10 s, and tried again",
    section: "Connecting",
    async play(t) {
      t.start();
      const first = await t.connects();
      await t.next(first, "attach");
      await t.pass(9000);
      if (!first.isOpen) t.fail("the client gives the attach up before 10 s");
      const link = await t.attaches({ within: 8000 });
      await rings(t, link);
    },
  },
  final(107, 200, "notAccepted"),
  final(108, 203, "tokenTooLong"),
  final(109, 300, "invalidDevice"),
  renewable(110, 201, "expired"),
  renewable(111, 204, "revoked"),
  {
    number: 112,
    title: "An attach that is refused as overloaded is tried again after retryAfterMs, not before",
    section: "Errors",
    async play(t) {
      await refused(t, 503, { retryAfterMs: 20_000 });
      await t.staysAway(19_000);
      await t.attaches({ within: 20_000 });
    },
  },
  {
    number: 113,
    title: "An attach that is refused as draining (502) is tried at another edge",
    section: "attach",
    async play(t) {
      await refused(t, 502);
      await t.attaches({ within: 3000, edge: t.edges[1] });
    },
  },
  {
    number: 114,
    title: "A refused token is not tried again while no new one has come",
    section: "Authentication",
    async play(t) {
      await refused(t, 201);
      await t.shows("needsToken");
      await t.staysAway(60_000);
      await t.does("token", { token: "token-2" });
      await t.attaches({ within: 60_000 });
    },
  },
  comesBack(115, 4003, "not attached in time"),
  comesBack(116, 4005, "reads too slowly"),
  comesBack(117, 4007, "pings not answered"),
  comesBack(118, 4010, "message not complete"),
  comesBack(119, 4011, "an operator's"),
  comesBack(120, 1002, "protocol violated"),
];
