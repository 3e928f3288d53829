// 216 to 239: connections that break while a call rings, and calls that were answered.
import { ann, answers, calls, candidate, here, ids, invite, received, rings, signal, tablet, talks, won } from "./helpers.js";

export const calledRaces = [
  {
    number: 216,
    title: "A call that rings while the connection is gone stops some seconds after its deadline",
    section: "What a client must do",
    async play(t) {
      const link = await t.attached();
      await rings(t, link);
      for (const edge of t.edges) edge.isDown = true;
      link.break();
      await t.pass(25_000);
      await t.showsNo("stopped");
      await t.shows("stopped", { call: received.id }, { within: 30_000 });
    },
  },
  {
    number: 249,
    title: "An invite that comes before the reply to the first attach: the call rings, and its stop ends it",
    section: "What a client must do",
    race: "R5",
    async play(t) {
      t.start();
      const link = await t.connects();
      await t.next(link, "attach");
      t.deliver(link, received, invite(t));
      await t.shows("rings", { call: received.id });
      t.reply(link, { id: link.attachId }, { attached: t.sessionInfo() });
      t.deliver(link, received, { stop: { reason: "cancelled" } });
      await t.shows("stopped", { call: received.id, reason: "cancelled" });
    },
  },
  {
    number: 217,
    title: "The connection breaks in mid-ring and comes back: the call rings on, once",
    section: "What a client must do",
    race: "R6",
    async play(t) {
      const first = await t.attached();
      await rings(t, first, received, { signals: [candidate(1)] });
      await t.shows("signal", { call: received.id, body: "candidate:1" });
      first.break();
      const link = await t.attaches({ within: 3000 });
      t.deliver(link, received, invite(t, { signals: [candidate(1), candidate(2)] }));
      await t.shows("signal", { call: received.id, body: "candidate:2" });
      await answers(t, link);
    },
  },
  {
    number: 218,
    title: "A call that ended while the connection was gone stops ringing",
    section: "attach",
    race: "R11",
    async play(t) {
      const first = await t.attached();
      await rings(t, first);
      first.break();
      const link = await t.attaches({ within: 3000 });
      t.deliver(link, received, { stop: { reason: "answeredElsewhere", by: tablet } });
      await t.shows("stopped", { call: received.id, reason: "answeredElsewhere" });
    },
  },
  {
    number: 219,
    title: "The reply to an answer is lost: the answer is sent again under its id",
    section: "What a client must do",
    race: "R9",
    async play(t) {
      const link = await t.attached();
      await rings(t, link);
      await t.does("answer", { call: received, description: "v=0 answer" });
      const answer = await t.next(link, "answer");
      await t.pass(6500);
      await t.quiet(link);
      const again = await t.next(link, "answer", { within: 2000 });
      if (again.id !== answer.id) t.fail("the answer has another id");
      won(t, link, again);
      await t.shows("won", { call: received.id });
    },
  },
  {
    number: 220,
    title: "The connection breaks before the reply to an answer: it is sent again on the next one",
    section: "What a client must do",
    race: "R9",
    async play(t) {
      const first = await t.attached();
      await rings(t, first);
      await t.does("answer", { call: received, description: "v=0 answer" });
      const answer = await t.next(first, "answer");
      first.break();
      const link = await t.attaches({ within: 3000 });
      t.deliver(link, received, { answered: { by: here } });
      const again = await t.next(link, "answer");
      if (again.id !== answer.id) t.fail("the answer has another id");
      won(t, link, again);
      await t.shows("won", { call: received.id });
    },
  },
  {
    number: 221,
    title: "An answer wins after the device had stopped ringing by itself: it hangs up",
    section: "What a client must do",
    race: "R10",
    async play(t) {
      const first = await t.attached();
      await rings(t, first);
      await t.does("answer", { call: received, description: "v=0 answer" });
      await t.next(first, "answer");
      for (const edge of t.edges) edge.isDown = true;
      first.break();
      await t.pass(45_000);
      const hasStopped = await t.mayShow("stopped", { call: received.id });
      for (const edge of t.edges) edge.isDown = false;
      const link = await t.attaches({ within: 20_000 });
      t.deliver(link, received, { answered: { by: here } });
      await t.settle();
      const names = (await t.commands(link)).map((frame) => Object.keys(frame).at(-1));
      if (hasStopped && !names.includes("hangUp")) t.fail(`it does not hang up, but sends ${names.join(", ") || "nothing"}`);
      if (!hasStopped) await t.shows("won", { call: received.id });
    },
  },
  {
    number: 222,
    title: "The caller hangs up in the call",
    section: "hangUp",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      t.deliver(link, received, { stop: { reason: "hungUp", by: ann } });
      await t.shows("stopped", { call: received.id, reason: "hungUp" });
    },
  },
  {
    number: 223,
    title: "The device hangs up",
    section: "hangUp",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      await t.does("hangUp", { call: received });
      t.state(link, await t.next(link, "hangUp"), "ended", { reason: "hungUp", by: here });
      await t.mayShow("stopped", { call: received.id });
      await t.showsNo("answered");
    },
  },
  {
    number: 224,
    title: "A call that was answered and never connected ends as failed",
    section: "connected",
    race: "R15",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      await t.pass(15_000);
      t.deliver(link, received, { stop: { reason: "failed" } });
      await t.shows("stopped", { call: received.id, reason: "failed" });
    },
  },
  {
    number: 225,
    title: "A second call rings while the device is in a call, and says so",
    section: "Deliveries",
    race: "R21",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      const second = { callee: "bob", id: ids.c };
      t.deliver(link, second, invite(t, { caller: { user: "carl", device: "carl-phone" }, secondCall: true }));
      await t.shows("rings", { call: ids.c, secondCall: true });
      t.deliver(link, second, { stop: { reason: "cancelled", missed: true } });
      await t.shows("stopped", { call: ids.c });
    },
  },
  {
    number: 226,
    title: "Candidates of the invite and those that follow are shown once, in order",
    section: "Deliveries",
    race: "R17",
    async play(t) {
      const link = await t.attached();
      await rings(t, link, received, { signals: [candidate(1), candidate(2)] });
      t.deliver(link, received, signal(2));
      t.deliver(link, received, signal(3));
      for (const index of [1, 2, 3]) await t.shows("signal", { call: received.id, body: `candidate:${index}` });
    },
  },
  {
    number: 227,
    title: "The winner's connection breaks in the call: attach is enough, and nothing is shown twice",
    section: "What a client must do",
    race: "R22",
    async play(t) {
      const first = await t.attached();
      await talks(t, first);
      first.break();
      const link = await t.attaches({ within: 3000 });
      t.deliver(link, received, { answered: { by: here } });
      await t.pass(1000);
      await t.quiet(link);
      t.deliver(link, received, signal(1));
      await t.shows("signal", { call: received.id, body: "candidate:1" });
    },
  },
  {
    number: 228,
    title: "Ringing, timeout and hang-up at the same moment: one end is shown",
    section: "End reasons",
    race: "R16",
    async play(t) {
      const link = await t.attached();
      await rings(t, link);
      await t.does("decline", { call: received });
      const decline = await t.next(link, "decline");
      t.deliver(link, received, { stop: { reason: "unanswered", missed: true } });
      t.state(link, decline, "ended", { reason: "unanswered", missed: true });
      await t.mayShow("stopped", { call: received.id });
      await t.showsNo("stopped");
    },
  },
  {
    number: 229,
    title: "A former run of the app had the call: it is acknowledged once the app has said something about it",
    section: "What a client must do",
    race: "R22",
    needs: ["connected"],
    async play(t) {
      const link = await t.attached();
      const version = t.deliver(link, received, { answered: { by: here } }, { mustNotAck: true });
      await t.shows("won", { call: received.id });
      await t.pass(2000);
      t.rules.forget(version);
      t.deliver(link, received, { answered: { by: here } }, { version });
      await t.does("connected", { call: received });
      t.reply(link, await t.next(link, "connected"), { done: {} });
      await t.pass(250);
      if (!link.acks.some((item) => item.version === version)) t.fail("the call is not acknowledged");
    },
  },
];
