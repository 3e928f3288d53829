// The service worker of Callmesh: shows calls that a push announces, declines them without opening the page, and takes
// the notification away when the call is over. It is a classic script without imports.
//
// Settings come from its own address (`enablePush` writes them there), or from `self.callmesh`, where another worker
// loads this one with `importScripts`:
//
//   edges     addresses of edges, `https://…`; left out, the worker's own origin
//   page      the page that shows calls; left out, "./"
//   icon      the picture of notifications
//   quietEnd  false: show nothing where a call was answered or declined elsewhere. Safari is shown it all the same
//   texts     the texts below in another language
"use strict";

const callmeshTexts = {
  ring: "Incoming call",
  ringVideo: "Incoming video call",
  answer: "Answer",
  decline: "Decline",
  missed: "Missed call",
  missedVideo: "Missed video call",
  answeredElsewhere: "Answered on another device",
  declinedElsewhere: "Declined on another device",
  ended: "Call ended",
  notDeclined: "The call could not be declined",
};

// `lateMs`: after how long the cluster is asked again of a call of which only it knows that it still rings.
const callmeshTimes = { attemptMs: 6000, firstWaitMs: 250, graceMs: 2000, lateMs: 15_000 };

function callmeshSettings() {
  let given = self.callmesh;
  if (!given) {
    try {
      given = JSON.parse(new URL(self.location.href).searchParams.get("callmesh") ?? "{}");
    } catch {
      given = {};
    }
  }
  const edges = given.edges?.length ? given.edges : [self.location.origin];
  return {
    page: given.page ?? "./",
    icon: given.icon,
    quietEnd: given.quietEnd ?? true,
    edges: edges.map((edge) => new URL(edge.replace(/^ws/, "http")).origin),
    texts: { ...callmeshTexts, ...given.texts },
  };
}

// Pushes.

self.addEventListener("push", (event) => {
  let note = null;
  try {
    note = event.data.json().callmesh ?? null;
  } catch {
    // Not a push of Callmesh's.
  }
  if (note) event.waitUntil(callmeshPushed(note));
});

async function callmeshPushed(note) {
  if (typeof note.unread === "number") await callmeshBadge(note.unread);
  if (note.v > 1 || typeof note.call !== "string") return callmeshShow(note, callmeshSettings().texts.ended, {});
  if (note.purpose === "ring") return callmeshRing(note);
  if (note.purpose === "missedNotice") return callmeshMissed(note);
  return callmeshEnded(note);
}

/** Rings until the deadline, unless a page that can be seen does. */
async function callmeshRing(note) {
  const pages = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  for (const page of pages) page.postMessage({ callmesh: { action: "ring", call: note.call, callee: note.callee } });
  // A clock that is behind the cluster's must not make an old push of a new one.
  const left = note.deadlineMs - Math.max(Date.now(), note.sentAtMs ?? 0);
  const state = left <= 0 ? await callmeshAsk(note, "") : null;
  if (left <= 0 && state?.phase !== "placed" && state?.phase !== "ringing") return callmeshCameLate(note, state);
  const isSeen = pages.some((page) => page.visibilityState === "visible" && callmeshIsPage(page));
  if (isSeen && !(await callmeshMustShow())) return;
  const { texts } = callmeshSettings();
  await callmeshShow(note, note.video ? texts.ringVideo : texts.ring, {
    requireInteraction: true,
    renotify: !isSeen,
    silent: isSeen,
    vibrate: [600, 300, 600, 300, 600],
    actions: [
      { action: "answer", title: texts.answer },
      { action: "decline", title: texts.decline },
    ],
    data: callmeshData(note, "ring"),
  });
  // Where no clean-up push comes, the notification ends with the call.
  const wait = state ? callmeshTimes.lateMs : left;
  await new Promise((resolve) => setTimeout(resolve, wait + callmeshTimes.graceMs));
  // A clock that is ahead of the cluster's ends it too early: what the push seems to have been under way may be that.
  const deadlineMs = Math.max(note.deadlineMs, state?.deadlineMs ?? 0);
  const rest = deadlineMs - (note.sentAtMs ?? deadlineMs) - wait;
  if (rest > callmeshTimes.graceMs && (await callmeshShown(note)).some(({ data }) => data?.kind === "ring")) {
    const phase = (await callmeshAsk(note, ""))?.phase;
    if (phase === "placed" || phase === "ringing") await new Promise((resolve) => setTimeout(resolve, rest));
  }
  for (const shown of await callmeshShown(note)) if (shown.data?.kind === "ring") shown.close();
}

/** The push was under way for too long. */
function callmeshCameLate(note, state) {
  if (!state || state.missed || state.phase !== "ended") return callmeshMissed(note);
  return callmeshEnded({ ...note, reason: state.reason, by: state.by });
}

function callmeshMissed(note) {
  const { texts } = callmeshSettings();
  const options = { renotify: false, data: callmeshData(note, "missed") };
  return callmeshShow(note, note.video ? texts.missedVideo : texts.missed, options);
}

/** The call is over: the notification that rings goes away. */
async function callmeshEnded(note) {
  const { texts, quietEnd } = callmeshSettings();
  const shown = await callmeshShown(note);
  const title =
    note.reason === "answeredElsewhere" ? texts.answeredElsewhere
    : note.reason === "declined" ? texts.declinedElsewhere
    : texts.ended;
  // A notice that has come before says more.
  const isTold = shown.some(({ data }) => data?.kind === "missed");
  for (const notification of shown) if (notification.data?.kind === "ring") notification.close();
  // Browsers end subscriptions whose pushes show nothing, so a quiet note takes its place.
  if (isTold) return callmeshMissed(note);
  if (!quietEnd && !(await callmeshMustShow())) return;
  const device = note.by?.deviceName;
  await callmeshShow(note, title, { silent: true, body: device, data: callmeshData(note, "ended") });
}

// Notifications.

/** Safari ends a subscription when a push shows nothing, also while a page is seen. Other browsers allow that. */
async function callmeshMustShow() {
  const subscription = await self.registration.pushManager?.getSubscription();
  return !!subscription && new URL(subscription.endpoint).hostname.endsWith(".push.apple.com");
}

const callmeshTag = (note) => `callmesh-${String(note.call).toLowerCase()}`;

async function callmeshShown(note) {
  return self.registration.getNotifications({ tag: callmeshTag(note) });
}

function callmeshShow(note, title, options) {
  const body = note.caller?.name || note.caller?.user || "";
  const { icon } = callmeshSettings();
  // One tag for a call: what is shown later takes the place of what was shown before.
  return self.registration.showNotification(title, { body, icon, tag: callmeshTag(note), ...options });
}

/** The data that a click needs. The capability is the right to decline this call, so it ends with the notification. */
const callmeshData = (note, kind) => ({
  kind,
  call: note.call,
  callee: note.callee,
  caller: note.caller,
  sentAtMs: note.sentAtMs,
  deadlineMs: note.deadlineMs,
  capability: kind === "ring" ? note.capability : undefined,
});

async function callmeshBadge(unread) {
  try {
    await (unread > 0 ? self.navigator.setAppBadge?.(unread) : self.navigator.clearAppBadge?.());
  } catch {
    // Not an installed app.
  }
}

self.addEventListener("notificationclick", (event) => {
  const note = event.notification.data;
  if (!event.notification.tag.startsWith("callmesh-") || !note) return;
  event.notification.close();
  event.waitUntil(event.action === "decline" ? callmeshDecline(note) : callmeshOpen(note, event.action));
});

const callmeshPage = () => new URL(callmeshSettings().page, self.location.href);

/** Whether a window shows the page that rings, and no other one of its origin. */
const callmeshIsPage = (client) => new URL(client.url).pathname === callmeshPage().pathname;

/** Shows the page, and tells it of the call: an open one by a message, a new one by its address. */
async function callmeshOpen(note, action) {
  const news = { action: action === "answer" ? "answer" : note.kind, call: note.call, callee: note.callee };
  const pages = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  const page = callmeshPage();
  const open = pages.find(callmeshIsPage);
  if (open) {
    open.postMessage({ callmesh: news });
    return open.focus();
  }
  page.hash = `callmesh=${encodeURIComponent(JSON.stringify(news))}`;
  return self.clients.openWindow(page.href);
}

// Requests about a call, with the push's capability: no page, no session and no login.

async function callmeshDecline(note) {
  const { texts } = callmeshSettings();
  const state = await callmeshAsk(note, "/decline");
  if (!state) return callmeshShow(note, texts.notDeclined, { data: callmeshData(note, "missed") });
}

/**
 * Sends a request to one edge after the other until one answers it, or the call cannot ring any more.
 * @param action "/decline", or "" to ask for the state
 * @returns the call's state; null: no edge said anything of it
 */
async function callmeshAsk(note, action) {
  const { edges } = callmeshSettings();
  const path = `/v1/calls/${encodeURIComponent(note.callee)}/${note.call}${action}`;
  const first = Math.floor(Math.random() * edges.length);
  // It rings no longer than this, whatever the clock says. A late answer changes nothing, so a few attempts are made anyway.
  const until = Date.now() + note.deadlineMs - (note.sentAtMs ?? note.deadlineMs);
  for (let attempt = 0; attempt < 3 || (Date.now() < until && attempt < 12); attempt += 1) {
    const answer = await callmeshAttempt(edges[(first + attempt) % edges.length] + path, action, note.capability);
    if (answer.isFinal) return answer.state;
    const wait = Math.max(answer.retryAfterMs, Math.min(callmeshTimes.firstWaitMs * 2 ** attempt, 4000));
    await new Promise((resolve) => setTimeout(resolve, wait * (0.5 + Math.random() / 2)));
  }
  return null;
}

async function callmeshAttempt(url, action, capability) {
  // In the body of a decline the capability costs no preflight.
  const options = action
    ? { method: "POST", body: JSON.stringify({ capability }) }
    : { headers: { Authorization: `CallmeshPush ${capability}` } };
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), callmeshTimes.attemptMs);
  try {
    const response = await fetch(url, { ...options, signal: abort.signal, cache: "no-store", credentials: "omit" });
    if (response.ok) return { isFinal: true, state: await response.json() };
    const retryAfterMs = 1000 * (Number(response.headers.get("retry-after")) || 0);
    return { isFinal: response.status < 500 && response.status !== 429, state: null, retryAfterMs };
  } catch {
    return { isFinal: false, retryAfterMs: 0 };
  } finally {
    clearTimeout(timer);
  }
}
