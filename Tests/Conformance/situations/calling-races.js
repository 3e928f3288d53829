// 314 to 339: what crosses on its way, and what is refused.
import { ann, annTablet, calls, candidate, ids, placed, places, signal } from "./helpers.js";

/** The place is refused, which no retry of the client's can help. */
const refused = (number, code, name) => ({
  number,
  title: `A place that is refused as ${name} (${code}) fails, and is not sent again`,
  section: "place",
  async play(t) {
    const link = await t.attached();
    await t.does("place", { call: placed, description: "v=0 offer" });
    t.refuse(link, await t.next(link, "place"), code);
    await t.shows("failed", { of: "place", code });
    await t.mayShow("stopped", { call: placed.id });
    await t.pass(20_000);
    await t.quiet(link);
  },
});

export const callingRaces = [
  {
    number: 314,
    title: "Another device alerts after the first one left: the newest one is shown",
    section: "alerting",
    async play(t) {
      const link = await t.attached();
      await places(t, link);
      t.deliver(link, placed, { ringing: { by: ann } });
      await t.shows("ringing", { call: placed.id });
      t.deliver(link, placed, { ringing: { by: annTablet } });
      const shown = await t.shows("ringing", { call: placed.id });
      if (shown.by?.device !== "ann-tablet") t.fail(`by is shown as ${JSON.stringify(shown.by)}`);
    },
  },
  {
    number: 315,
    title: "A ringing that comes after the answer changes nothing",
    section: "What a client must do",
    async play(t) {
      const link = await t.attached();
      await calls(t, link);
      t.deliver(link, placed, { ringing: { by: annTablet } });
      await t.pass(300);
      await t.showsNo("ringing");
    },
  },
  {
    number: 316,
    title: "An answer that comes before the reply to the place",
    section: "Frames",
    async play(t) {
      const link = await t.attached();
      await t.does("place", { call: placed, description: "v=0 offer" });
      const place = await t.next(link, "place");
      t.deliver(link, placed, { ringing: { by: ann } });
      t.deliver(link, placed, { answered: { by: ann, description: "v=0 answer" } });
      await t.shows("answered", { call: placed.id });
      t.state(link, place, "placed", { deadlineMs: t.clusterMs + 30_000 });
      await t.pass(300);
      await t.showsNo("stopped");
    },
  },
  refused(317, 405, "tooManyCalls"),
  refused(318, 406, "tooManyLiveCalls"),
  refused(319, 420, "refusedByApp"),
  refused(320, 423, "appAway"),
  refused(321, 412, "noGateway"),
  {
    number: 322,
    title: "The caller cancels",
    section: "cancel",
    async play(t) {
      const link = await t.attached();
      await places(t, link);
      await t.does("cancel", { call: placed });
      const cancel = await t.next(link, "cancel");
      if (cancel.cancel.call.callee !== "ann") t.fail("the address has no callee");
      t.state(link, cancel, "ended", { reason: "cancelled" });
      await t.mayShow("stopped", { call: placed.id });
    },
  },
  {
    number: 323,
    title: "The caller cancels, and an answer was faster",
    section: "cancel",
    race: "R2",
    async play(t) {
      const link = await t.attached();
      await places(t, link);
      await t.does("cancel", { call: placed });
      const cancel = await t.next(link, "cancel");
      t.deliver(link, placed, { answered: { by: ann, description: "v=0 answer" } });
      t.state(link, cancel, "answered", { by: ann });
      await t.shows("answered", { call: placed.id });
      await t.showsNo("stopped");
      await t.does("hangUp", { call: placed });
      t.state(link, await t.next(link, "hangUp"), "ended", { reason: "hungUp" });
      await t.mayShow("stopped", { call: placed.id });
    },
  },
  {
    number: 324,
    title: "Candidates wait until the place is answered, and leave in order",
    section: "What a client must do",
    race: "R17",
    async play(t) {
      const link = await t.attached();
      await t.does("place", { call: placed, description: "v=0 offer" });
      const place = await t.next(link, "place");
      for (const body of ["candidate:1", "candidate:2", ""]) await t.does("candidate", { call: placed, body });
      await t.quiet(link);
      t.state(link, place, "placed", { deadlineMs: t.clusterMs + 30_000 });
      for (const body of ["candidate:1", "candidate:2", ""]) {
        const frame = await t.next(link, "candidate");
        if ((frame.candidate.body ?? "") !== body) t.fail(`${frame.candidate.body} where ${body} was expected`);
        t.reply(link, frame, { done: {} });
      }
    },
  },
  {
    number: 325,
    title: "The other side's signals come with the answer and alone, and are shown once",
    section: "Deliveries",
    race: "R17",
    async play(t) {
      const link = await t.attached();
      await places(t, link);
      t.deliver(link, placed, { answered: { by: ann, description: "v=0 answer", signals: [candidate(1), candidate(2)] } });
      t.deliver(link, placed, signal(2));
      t.deliver(link, placed, { signal: { index: 3, kind: "description", body: "v=0 again" } });
      t.deliver(link, placed, { signal: { index: 4, kind: "information", body: "{\"hold\":true}" } });
      await t.shows("answered", { call: placed.id });
      for (const body of ["candidate:1", "candidate:2", "v=0 again", "{\"hold\":true}"]) await t.shows("signal", { call: placed.id, body });
    },
  },
  {
    number: 326,
    title: "A call of a former run of the app is resumed, and its answer is shown",
    section: "calls",
    needs: ["resume"],
    async play(t) {
      const link = await t.attached();
      await t.does("calls");
      const frame = await t.next(link, "calls");
      t.reply(link, frame, { calls: { placed: [{ call: placed, phase: "ringing", version: 1_048_580, deadlineMs: t.clusterMs + 20_000 }] } });
      const { value } = await t.shows("result", { of: "calls" });
      if (value.placed?.[0]?.call.id !== ids.b) t.fail(JSON.stringify(value));
      await t.does("resume", { call: placed });
      t.state(link, await t.next(link, "resume"), "ringing", { deadlineMs: t.clusterMs + 20_000 });
      t.version(placed.id);
      t.deliver(link, placed, { answered: { by: ann, description: "v=0 answer" } });
      await t.shows("answered", { call: placed.id, description: "v=0 answer" });
    },
  },
  {
    number: 327,
    title: "The reply to a place says why nobody can be reached",
    section: "Deliveries",
    race: "R19",
    async play(t) {
      const link = await t.attached();
      await t.does("place", { call: placed, description: "v=0 offer" });
      t.state(link, await t.next(link, "place"), "ended", { reason: "unreachable", unreachable: "noDevice" });
      await t.shows("stopped", { call: placed.id, reason: "unreachable", unreachable: "noDevice" });
    },
  },
];
