// Beginnings that many situations share.

export const ids = {
  a: "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
  b: "7d444840-9dc0-11d1-b245-5ffdce74fad2",
  c: "0b0e4a52-61a5-4b6e-9f3a-1a52b7c20001",
};

export const ann = { user: "ann", device: "ann-phone", deviceName: "Ann's phone" };
export const annTablet = { user: "ann", device: "ann-tablet", deviceName: "Ann's tablet" };
export const carl = { user: "carl", device: "carl-phone", deviceName: "Carl's phone" };
export const here = { user: "bob", device: "bob-phone", deviceName: "Bob's phone" };
export const tablet = { user: "bob", device: "bob-tablet", deviceName: "Bob's tablet" };

/** A call to the device under test, and one by it. */
export const received = { callee: "bob", id: ids.a };
export const placed = { callee: "ann", id: ids.b };

export const invite = (t, more = {}) => ({
  invite: { caller: ann, deadlineMs: t.clusterMs + 30_000, description: "v=0 offer", ...more },
});

export const candidate = (index, body = `candidate:${index}`) => ({ index, kind: "candidate", body });
export const signal = (index, body) => ({ signal: candidate(index, body) });

/** The call rings at the client. @returns the version of the invite */
export async function rings(t, link, call = received, more = {}) {
  const version = t.deliver(link, call, invite(t, more));
  await t.shows("rings", { call: call.id });
  return version;
}

/** The client's user answers, and wins. */
export async function answers(t, link, call = received, by = here) {
  await t.does("answer", { call, description: "v=0 answer" });
  const answer = await t.next(link, "answer");
  t.version(call.id);
  won(t, link, answer, call, by);
  await t.shows("won", { call: call.id });
}

/** The reply to an answer or pull that has won. */
export function won(t, link, frame, call = received, by = here) {
  const version = t.version(call.id);
  t.reply(link, frame, { answer: { won: true, call: { call, phase: "answered", version, by, atMs: t.clusterMs } } });
  return version;
}

/** The reply to an answer or pull that has not won. */
export function lost(t, link, frame, more = {}, call = received) {
  const state = { call, phase: "ended", version: t.version(call.id), atMs: t.clusterMs, ...more };
  t.reply(link, frame, { answer: { won: false, call: state } });
}

/** The client is in a call that it has answered. */
export async function talks(t, link, call = received) {
  await rings(t, link, call);
  await answers(t, link, call);
}

/** The client's user calls, and the cluster has the call. */
export async function places(t, link, call = placed, more = {}) {
  await t.does("place", { call, description: "v=0 offer", ...more });
  const place = await t.next(link, "place");
  t.state(link, place, "placed", { deadlineMs: t.clusterMs + 30_000 });
  await t.settle();
  return place;
}

/** The client is in a call that it has placed. */
export async function calls(t, link, call = placed) {
  await places(t, link, call);
  t.deliver(link, call, { answered: { by: ann, description: "v=0 answer" } });
  await t.shows("answered", { call: call.id });
}
