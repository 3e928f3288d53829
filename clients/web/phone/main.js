// Starts the page, and turns what the user does into commands of the phone.

import { deviceId, holdDevice } from "../callmesh.js";
import { Alerts } from "./alerts.js";
import { draw } from "./dom.js";
import { forwardsFrom, noForwards } from "./forwarding.js";
import { findCall, soundOf } from "./model-calls.js";
import { Phone } from "./phone.js";
import * as server from "./server.js";
import { Sounds } from "./sounds.js";
import { Store } from "./store.js";
import { Streams } from "./streams.js";
import { page } from "./view.js";

const address = new URLSearchParams(location.search);
const streams = new Streams();
const sounds = new Sounds();
const alerts = new Alerts();
const store = new Store({ deviceName: address.get("device") || browserName(), nowMs: Date.now() });
let phone = null;
let settings = null;

const tell = (type, event = {}) => store.dispatch({ type, ...event });

/** `Chrome on Linux`. */
function browserName() {
  const agent = navigator.userAgent;
  const find = (names) => names.find((name) => agent.includes(name));
  const system = find(["Android", "iPhone", "iPad", "Windows", "Mac", "Linux"]);
  const name = find(["Edg", "Firefox", "Chrome", "Safari"])?.replace("Edg", "Edge") ?? "Browser";
  return system ? `${name} on ${system}` : name;
}

let ownId = null;

/** Each tab is a device of its own. A copy of a tab has the id of the first one, and draws another. */
async function ownDeviceId() {
  if (ownId) return ownId;
  const options = { storage: sessionStorage };
  ownId = deviceId("web", options);
  try {
    await holdDevice(ownId, { signal: AbortSignal.timeout(2000) });
  } catch {
    sessionStorage.removeItem("callmesh-device");
    ownId = deviceId("web", options);
    await holdDevice(ownId);
  }
  return ownId;
}

async function signIn(user, deviceName) {
  const contact = store.model.contacts.find((contact) => contact.user === user);
  tell("signingIn", { user, name: contact?.name || user, deviceName });
  const parts = { edges: settings.edges, rtc: settings.rtc, getToken: server.token, deviceId: await ownDeviceId() };
  const ring = Number(address.get("ring")) || undefined;
  const query = new URLSearchParams({ user, device: deviceName });
  if (ring) query.set("ring", String(ring));
  // A notification opens the page as this user.
  if (settings.push) parts.push = { ...settings.push, page: `${location.pathname}?${query}` };
  phone = new Phone({ user, deviceName, store, streams, settings: { ...parts, ringTimeoutSeconds: ring } });
  // For whoever looks into the page with the browser's tools, and for tests.
  globalThis.callmeshPhone = phone;
  phone.start();
  history.replaceState(null, "", `?${query}`);
}

const fields = (event) => {
  event.preventDefault();
  return Object.fromEntries(new FormData(event.target));
};

const act = {
  signInForm(event) {
    const { user, device } = fields(event);
    void act.allow();
    void signIn(user.trim(), device.trim() || browserName());
  },
  signOut() {
    void phone.stop();
    phone = null;
    tell("signedOut");
    history.replaceState(null, "", location.pathname);
  },
  dialForm(event) {
    const user = fields(event).user.trim();
    event.target.reset();
    if (!user) return;
    rememberContact(user);
    act.dial(user, false);
  },
  dial: (user, video) => phone.dial(user, { video }),
  answer: (id, video) => phone.answer(id, { video }),
  decline: (id, how) => phone.decline(id, how),
  hangUp: (id) => phone.hangUp(id),
  dismiss: (id) => tell("dismissed", { id }),
  mute: (id, isMuted) => phone.line(id)?.mute(isMuted),
  camera: (id, isOn) => phone.run(phone.line(id)?.camera(isOn)),
  hold: (id, isHeld) => phone.hold(id, isHeld),
  pull: (entry) => phone.pull(entry),
  transfer(id, user) {
    tell("dialog", { dialog: null });
    phone.transfer(id, user);
  },
  ask(id, user) {
    tell("dialog", { dialog: null });
    phone.dial(user, { asksFor: id });
  },
  /** Hands the call over for which `id` asks. */
  handOver(id) {
    const call = findCall(store.model, id);
    phone.transfer(call.asksFor, call.peer.user, id);
  },
  cancelTransfer: (id) => phone.cancelTransfer(id),
  tab: (tab) => tell("tab", { tab }),
  markRead: () => phone.run(phone.lists.markRead()),
  older: () => phone.run(phone.lists.loadOlder()),
  disturb: (until) => phone.run(phone.lists.disturb(until)),
  forwardForm(event) {
    const { rules, problem } = forwardsFrom(store.model, fields(event));
    if (problem) {
      tell("dialog", { dialog: { kind: "forward", problem } });
      event.target.elements[problem.rule].focus();
      return;
    }
    event.target.closest("dialog").close();
    phone.run(phone.lists.forward(rules));
  },
  forwardNowhere: () => phone.run(phone.lists.forward(noForwards)),
  noticeGone: (id) => tell("noticeGone", { id }),
  dialog(dialog) {
    if (dialog?.kind === "media") void listDevices();
    tell("dialog", { dialog });
  },
  choose(kind, id) {
    streams.choose(kind, id);
    tell("media", { chosen: streams.chosen });
    if (kind === "output") useSpeaker();
    else phone.changeMedia(kind);
  },
  async allow() {
    await sounds.allow();
    await alerts.allow();
    updateAsks();
    phone?.run(phone.pushes.enable());
  },
};

function rememberContact(user) {
  if (store.model.contacts.some((contact) => contact.user === user)) return;
  const contacts = [...store.model.contacts, { user }];
  localStorage.setItem("callmesh-phone-contacts", JSON.stringify(contacts.filter(({ name }) => !name)));
  tell("contacts", { contacts });
}

function ownContacts() {
  try {
    return JSON.parse(localStorage.getItem("callmesh-phone-contacts") ?? "[]");
  } catch {
    return [];
  }
}

const listDevices = async () => tell("media", await streams.list());

/** Plays the other side at the chosen loudspeaker. */
const useSpeaker = () => streams.playAtChosen(document.querySelectorAll("video.remote, audio"));

function updateAsks() {
  const asks = [];
  if (!sounds.isAllowed) asks.push("sounds");
  if (alerts.isUndecided) asks.push("notifications");
  if (asks.join() !== store.model.asks.join()) tell("asks", { asks });
}

/** The user may have changed the rules on another device. */
const loadRules = () => store.model.session.state === "attached" && phone.run(phone.lists.loadRules());

/** The streams of a call. */
const media = (id) => {
  const line = phone?.line(id);
  return { remote: line?.remote ?? null, local: line?.stream ?? null };
};
media.mounted = () => useSpeaker();

async function start() {
  const root = document.getElementById("phone");
  store.subscribe((model) => {
    draw(root, page(model, act, media));
    sounds.play(soundOf(model));
    alerts.update(model);
  });
  setInterval(() => tell("tick", { nowMs: Date.now() }), 1000);
  document.addEventListener("visibilitychange", () => {
    alerts.update(store.model);
    if (!document.hidden) loadRules();
  });
  addEventListener("focus", loadRules);
  // A page that the browser keeps for a way back has no microphone: its calls end here, and it begins anew.
  addEventListener("pagehide", ({ persisted }) => persisted && phone?.device.leave());
  addEventListener("pageshow", ({ persisted }) => persisted && location.reload());
  // Any click allows sounds. Notifications are asked for where the user says so.
  document.addEventListener("click", () => void sounds.allow().then(updateAsks), { once: true });
  streams.watch(() => void listDevices());
  try {
    settings = await server.settings();
  } catch (error) {
    tell("refused", { text: error.message });
    return;
  }
  tell("contacts", { contacts: [...settings.contacts, ...ownContacts()] });
  updateAsks();
  if (address.get("user")) await signIn(address.get("user"), store.model.session.deviceName);
}

await start();
