// 506 to 529: replies and refusals that are not about one command alone.
import { ids, placed, places, received, rings, talks } from "./helpers.js";

/** A refusal that goes to the app. */
const fails = (number, code, name) => ({
  number,
  title: `A command that is refused as ${name} (${code}) is not sent again`,
  section: "Errors",
  async play(t) {
    const link = await t.attached();
    await talks(t, link);
    await t.does("transfer", { call: received, to: "carl" });
    t.refuse(link, await t.next(link, "transfer"), code);
    await t.shows("failed", { of: "transfer", code });
    await t.pass(20_000);
    await t.quiet(link);
    await t.showsNo("stopped");
  },
});

export const replies = [
  {
    number: 506,
    title: "Replies come in another order than their commands",
    section: "Frames",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      for (const body of ["one", "two", "three"]) await t.does("information", { call: received, body });
      const frames = [];
      for (let count = 0; count < 3; count += 1) frames.push(await t.next(link, "information"));
      for (const frame of frames.reverse()) t.reply(link, frame, { done: {} });
      await t.pass(10_000);
      await t.quiet(link);
    },
  },
  {
    number: 507,
    title: "After a break the commands without a reply come again, in the order of their ids",
    section: "What a client must do",
    race: "R9",
    async play(t) {
      const first = await t.attached();
      await talks(t, first);
      for (const body of ["candidate:1", "candidate:2", "candidate:3"]) await t.does("candidate", { call: received, body });
      const sent = await t.commands(first);
      t.reply(first, sent[0], { done: {} });
      await t.settle();
      first.break();
      const link = await t.attaches({ within: 3000 });
      const again = (await t.commands(link)).map(({ id }) => id);
      const expected = sent.slice(1).map(({ id }) => id);
      if (again.join() !== expected.join()) t.fail(`${again} come again instead of ${expected}`);
      for (const id of again) t.reply(link, { id }, { done: {} });
    },
  },
  {
    number: 508,
    title: "A candidate that is refused with 501 comes again before the later ones",
    section: "What a client must do",
    race: "R17",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      for (const body of ["candidate:1", "candidate:2", "candidate:3"]) await t.does("candidate", { call: received, body });
      const sent = await t.commands(link);
      for (const frame of sent) t.refuse(link, frame, 501);
      const again = [];
      for (let count = 0; count < 3; count += 1) {
        const frame = await t.next(link, "candidate", { within: 5000 });
        again.push(frame.id);
        t.reply(link, frame, { done: {} });
      }
      if (again.join() !== sent.map(({ id }) => id).join()) t.fail(`they come again as ${again}`);
    },
  },
  {
    number: 509,
    title: "At most 64 commands wait for their replies",
    section: "Frames",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      for (let index = 1; index <= 100; index += 1) t.adapter.tell("candidate", { call: received, body: `candidate:${index}` });
      for (let round = 0; round < 10; round += 1) for (const frame of await t.commands(link)) t.reply(link, frame, { done: {} });
    },
  },
  {
    number: 510,
    title: "Replies to commands that the client has not sent, and errors with the id 0, change nothing",
    section: "Frames",
    async play(t) {
      const link = await t.attached();
      t.send(link, { reply: { id: 900_000, done: {} } });
      t.send(link, { reply: { id: 0, error: { code: 100, name: "malformedFrame", message: "A test." } } });
      await rings(t, link);
    },
  },
  {
    number: 511,
    title: "A hang-up without a reply comes again on the next connection",
    section: "What a client must do",
    race: "R9",
    async play(t) {
      const first = await t.attached();
      await talks(t, first);
      await t.does("hangUp", { call: received });
      const hangUp = await t.next(first, "hangUp");
      first.break();
      const link = await t.attaches({ within: 3000 });
      const again = await t.next(link, "hangUp");
      if (again.id !== hangUp.id) t.fail("the hang-up has another id");
      t.state(link, again, "ended", { reason: "hungUp" });
      await t.mayShow("stopped", { call: received.id });
    },
  },
  {
    number: 512,
    title: "A decline without a connection is sent as soon as there is one",
    section: "What a client must do",
    async play(t) {
      const first = await t.attached();
      await rings(t, first);
      first.break();
      await t.does("decline", { call: received });
      const link = await t.attaches({ within: 3000 });
      t.state(link, await t.next(link, "decline"), "ended", { reason: "declined" });
      await t.mayShow("stopped", { call: received.id });
    },
  },
  fails(513, 402, "notParty"),
  fails(514, 404, "wrongState"),
  fails(515, 416, "transferring"),
  {
    number: 516,
    title: "A signal that is too large is refused, and the call goes on",
    section: "description, candidate",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      await t.does("description", { call: received, body: "x".repeat(17_000) });
      for (const frame of await t.commands(link)) t.refuse(link, frame, 408);
      await t.shows("failed", { of: "description", code: 408 });
      await t.showsNo("stopped");
      await t.does("candidate", { call: received, body: "candidate:1" });
      t.reply(link, await t.next(link, "candidate"), { done: {} });
    },
  },
  {
    number: 517,
    title: "A reply to connected that says ended ends the call",
    section: "connected",
    race: "R16",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      await t.does("connected", { call: received });
      t.state(link, await t.next(link, "connected"), "ended", { reason: "hungUp", by: { user: "ann", device: "ann-phone" } });
      await t.shows("stopped", { call: received.id, reason: "hungUp" });
    },
  },
  {
    number: 518,
    title: "A call that the app asks for is answered to the app alone",
    section: "query",
    async play(t) {
      const link = await t.attached();
      await t.does("query", { call: { callee: "bob", id: ids.c } });
      t.reply(link, await t.next(link, "query"), { call: { call: { callee: "bob", id: ids.c }, phase: "unknown" } });
      const { value } = await t.shows("result", { of: "query" });
      if (value.phase && value.phase !== "unknown") t.fail(JSON.stringify(value));
    },
  },
  {
    number: 519,
    title: "A call that was placed is still known after its ringing was refused a candidate (409)",
    section: "description, candidate",
    async play(t) {
      const link = await t.attached();
      await places(t, link);
      await t.does("candidate", { call: placed, body: "candidate:1" });
      t.refuse(link, await t.next(link, "candidate"), 409);
      await t.shows("failed", { of: "candidate", code: 409 });
      await t.showsNo("stopped");
    },
  },
];
