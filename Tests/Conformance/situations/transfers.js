// 608 to 639: calls that are transferred or sent on to another user.
import { ann, answers, calls, candidate, carl, here, ids, invite, received, rings, signal, talks, won } from "./helpers.js";

const transferred = { transferredBy: { user: "dora", device: "dora-phone" }, description: "" };
const transfer = (more) => ({ transfer: { to: "carl", number: 1, ...more } });

export const transfers = [
  {
    number: 608,
    title: "The device transfers a call: Carl rings, and takes it",
    section: "Calls that are transferred",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      await t.does("transfer", { call: received, to: "carl" });
      const frame = await t.next(link, "transfer");
      if (frame.transfer.to !== "carl" || frame.transfer.device) t.fail(JSON.stringify(frame.transfer));
      t.state(link, frame, "answered", { by: here });
      t.deliver(link, received, transfer({ by: carl }));
      await t.shows("transfer", { call: received.id, to: "carl" });
      t.deliver(link, received, { stop: { reason: "transferred", by: carl } });
      const shown = await t.shows("stopped", { call: received.id, reason: "transferred" });
      if (shown.by?.user !== "carl") t.fail(`by is shown as ${JSON.stringify(shown.by)}`);
    },
  },
  {
    number: 609,
    title: "A transfer comes back: the device has the call as before",
    section: "Calls that are transferred",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      await t.does("transfer", { call: received, to: "carl" });
      t.state(link, await t.next(link, "transfer"), "answered", { by: here });
      t.deliver(link, received, transfer({ reason: "unanswered" }));
      await t.shows("transfer", { call: received.id, reason: "unanswered" });
      // Late news of a transfer whose end is known changes nothing.
      t.deliver(link, received, transfer({ by: carl }));
      await t.pass(300);
      await t.showsNo("transfer");
      t.deliver(link, received, signal(1));
      await t.shows("signal", { call: received.id });
    },
  },
  {
    number: 610,
    title: "A transfer is taken back",
    section: "transfer, cancelTransfer",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      await t.does("transfer", { call: received, to: "carl" });
      t.state(link, await t.next(link, "transfer"), "answered", { by: here });
      await t.does("cancelTransfer", { call: received });
      t.state(link, await t.next(link, "cancelTransfer"), "answered", { by: here });
      await t.pass(300);
      await t.showsNo("stopped");
    },
  },
  {
    number: 611,
    title: "A transfer is taken back too late",
    section: "Calls that are transferred",
    race: "R2",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      await t.does("transfer", { call: received, to: "carl" });
      t.state(link, await t.next(link, "transfer"), "answered", { by: here });
      await t.does("cancelTransfer", { call: received });
      t.state(link, await t.next(link, "cancelTransfer"), "ended", { reason: "transferred", by: carl });
      t.deliver(link, received, { stop: { reason: "transferred", by: carl } });
      await t.shows("stopped", { call: received.id, reason: "transferred" });
    },
  },
  {
    number: 612,
    title: "A call is transferred to the device: it rings, and names who was called in all it says",
    section: "Calls that are transferred",
    async play(t) {
      const link = await t.attached();
      const call = { callee: "dora", id: ids.c };
      await rings(t, link, call, transferred);
      await t.does("answer", { call, description: "v=0 offer of bob" });
      const answer = await t.next(link, "answer");
      if (answer.answer.call.callee !== "dora") t.fail(`the answer is about a call to ${answer.answer.call.callee || "nobody"}`);
      won(t, link, answer, call, here);
      await t.shows("won", { call: call.id });
    },
  },
  {
    number: 613,
    title: "The device got the caller's side by a transfer: it resumes the call after a break",
    section: "Calls that are transferred",
    race: "R22",
    async play(t) {
      const first = await t.attached();
      const call = { callee: "ann", id: ids.c };
      await rings(t, first, call, { ...transferred, caller: ann });
      await answers(t, first, call, ann);
      first.break();
      const link = await t.attaches({ within: 3000 });
      t.state(link, await t.next(link, "resume"), "answered", { by: ann });
    },
  },
  {
    number: 614,
    title: "A call that the device had handed over is transferred back: it rings anew",
    section: "Calls that are transferred",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      t.deliver(link, received, { stop: { reason: "transferred", by: carl } });
      await t.shows("stopped", { call: received.id, reason: "transferred" });
      await rings(t, link, received, { transferredBy: carl, description: "" });
      await answers(t, link);
    },
  },
  {
    number: 615,
    title: "The invite of a transfer comes after the reply to the answer: it changes nothing",
    section: "Calls that are transferred",
    race: "R6",
    async play(t) {
      const link = await t.attached();
      const call = { callee: "dora", id: ids.c };
      await rings(t, link, call, transferred);
      const late = t.version(call.id);
      await answers(t, link, call);
      t.deliver(link, call, invite(t, transferred), { version: late });
      await t.pass(300);
      await t.showsNo("rings");
      await t.showsNo("stopped");
    },
  },
  {
    number: 616,
    title: "A call comes after consultation: the device that was asked may answer at once",
    section: "After consultation",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      const call = { callee: "dora", id: ids.c };
      t.deliver(link, call, invite(t, { caller: { user: "dora", device: "dora-phone" }, transferredBy: ann, description: "", consulted: received }));
      const shown = await t.shows("rings", { call: call.id });
      if (shown.consulted?.id !== received.id) t.fail(`consulted is shown as ${JSON.stringify(shown.consulted)}`);
      await answers(t, link, call);
      t.deliver(link, received, { stop: { reason: "transferred", survivor: call.id } });
      await t.shows("stopped", { call: received.id, reason: "transferred" });
    },
  },
  {
    number: 617,
    title: "An invite claims a consultation that this device has no part in: it rings like any other",
    section: "After consultation",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      const call = { callee: "dora", id: ids.c };
      const more = { caller: { user: "dora", device: "dora-phone" }, description: "" };
      // The call is this device's, but its other side is Ann, not Eve.
      t.deliver(link, call, invite(t, { ...more, transferredBy: { user: "eve", device: "eve-phone" }, consulted: received }));
      const shown = await t.shows("rings", { call: call.id });
      if (shown.consulted?.id) t.fail("anybody could make the device pick up");
      await t.quiet(link);
    },
  },
  {
    number: 618,
    title: "A transfer after consultation names the call and the device that was asked",
    section: "After consultation",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      await calls(t, link, { callee: "carl", id: ids.b });
      await t.does("transfer", { call: received, to: "carl", device: "carl-phone", consulted: { callee: "carl", id: ids.b } });
      const { transfer: body, id } = await t.next(link, "transfer");
      if (body.device !== "carl-phone" || body.consulted?.id !== ids.b || body.consulted.callee !== "carl") t.fail(JSON.stringify(body));
      t.state(link, { id, transfer: body }, "answered", { by: here });
      t.deliver(link, received, { stop: { reason: "transferred", by: carl } });
      t.deliver(link, { callee: "carl", id: ids.b }, { stop: { reason: "transferred", survivor: received.id } });
      await t.shows("stopped", { call: received.id, reason: "transferred" });
      const shown = await t.shows("stopped", { call: ids.b, reason: "transferred" });
      if (shown.survivor !== received.id) t.fail(`the survivor is shown as ${shown.survivor}`);
    },
  },
  {
    number: 619,
    title: "A call that was sent on to the device names the callee in all that is said of it",
    section: "Calls that go on to others",
    async play(t) {
      const link = await t.attached();
      const call = { callee: "desk", id: ids.c };
      t.deliver(link, call, invite(t, { divertedBy: "desk", signals: [candidate(1)] }));
      await t.shows("rings", { call: call.id, divertedBy: "desk" });
      await t.shows("signal", { call: call.id });
      await t.does("alerting", { call });
      const alerting = await t.next(link, "alerting");
      if (alerting.alerting.call.callee !== "desk") t.fail(`the callee is ${alerting.alerting.call.callee}`);
      t.state(link, alerting, "ringing", { deadlineMs: t.clusterMs + 30_000 });
      t.deliver(link, call, { stop: { reason: "unanswered", missed: true } });
      await t.shows("stopped", { call: call.id, reason: "unanswered", missed: true });
    },
  },
  {
    number: 620,
    title: "A call of the app's server rang for its first side here, and was answered elsewhere: it rings for the second one",
    section: "Calls that are transferred",
    async play(t) {
      const link = await t.attached();
      const call = { callee: "dora", id: ids.c };
      await rings(t, link, call, { caller: { user: "ann", device: "" }, divertedBy: "dora" });
      t.deliver(link, call, { stop: { reason: "answeredElsewhere", by: carl } });
      await t.shows("stopped", { call: call.id, reason: "answeredElsewhere" });
      await rings(t, link, call, { caller: carl, divertedBy: "ann", secondSide: true, description: "" });
      await answers(t, link, call, carl);
    },
  },
];
