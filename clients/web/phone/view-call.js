// Calls on the page: those that ring, the one in the middle, and others beside it.

import { h } from "./dom.js";
import { avatar, icon } from "./icons.js";
import { findCall, incoming, isTalking, mainCall, otherCalls } from "./model-calls.js";
import { clockText } from "./times.js";
import { peerName, statusText, transferText, whereText } from "./words.js";

/** Moves the focus to what is new, unless the user is typing. */
function focus(element) {
  const { activeElement } = document;
  const isTyping = activeElement?.matches("input, select") || activeElement?.closest("dialog");
  if (!isTyping) element.focus();
}

/** A button with an icon. `name` says in the page's code what it does. */
const button = (name, iconName, text, onclick, more = {}) =>
  h("button", { type: "button", "data-do": name, onclick, ...more }, icon(iconName), h("span", null, text));
const good = { class: "good" };
const bad = { class: "bad" };

/** Cards of the calls that ring. */
export const ringing = (model, act) => incoming(model).map((call) => ringingCard(model, act, call));

function ringingCard(model, act, call) {
  const isBusy = model.calls.some((other) => isTalking(other));
  const title = `incoming-${call.id}`;
  return h(
    "section",
    { class: "card ringing", role: "alertdialog", "aria-labelledby": title, key: `ring ${call.id}` },
    avatar(call.peer?.user ?? "", peerName(model, call), "large"),
    h("h2", { id: title, tabindex: "-1", onmount: focus }, statusText(model, call)),
    h("p", { class: "quiet" }, whatRings(call, isBusy)),
    h("div", { class: "controls" }, answers(act, call, isBusy), refusals(act, call, isBusy)),
  );
}

function answers(act, call, isBusy) {
  const answer = (isVideo) => () => act.answer(call.id, isVideo);
  if (!call.video) return button("answer", "phone", isBusy ? "Hold and answer" : "Answer", answer(false), good);
  return [
    button("answer-video", "camera", isBusy ? "Hold, answer with video" : "Answer with video", answer(true), good),
    button("answer", "phone", "Answer without video", answer(false), good),
  ];
}

function refusals(act, call, isBusy) {
  const refuse = (how) => () => act.decline(call.id, how);
  return [
    button("decline", "hangUp", "Decline", refuse("decline"), bad),
    isBusy
      ? button("busy", "close", "Busy here", refuse("busy"))
      : button("decline-here", "close", "Not on this device", refuse("declineHere")),
  ];
}

function whatRings(call, isBusy) {
  const where = call.peer?.deviceName ? `From ${call.peer.deviceName}. ` : "";
  if (isBusy) return `${where}A second call: you are in a call already.`;
  if (call.isSecondCall) return `${where}A second call: you are in a call on another device.`;
  return `${where}It rings on all your devices.`;
}

/** The call in the middle; without one, what can be done. */
export function stage(model, act, media) {
  const call = mainCall(model);
  if (!call) {
    if (incoming(model).length > 0) return null;
    return h("div", { class: "card empty", key: "none" }, h("p", null, "No call. Choose somebody to call."));
  }
  const label = `Call with ${peerName(model, call)}`;
  return h(
    "section",
    { class: "card call", key: `call ${call.id}`, "aria-label": label, "data-call": call.id, "data-state": call.state },
    pictures(model, call, media),
    about(model, call),
    call.end ? endControls(act, call) : !call.isLeaving && controls(model, act, call),
  );
}

/** The videos. That of the other side also plays its sound. */
function pictures(model, call, media) {
  const { remote, local } = media(call.id);
  const name = peerName(model, call);
  const isHeld = call.isHeld || call.isHeldByPeer;
  const isSeen = call.hasRemoteVideo && isTalking(call) && !isHeld;
  const video = { autoplay: true, playsinline: true };
  const own = { key: "local", class: "local", muted: true, "aria-label": "Your own video" };
  return h(
    "div",
    { class: "pictures" },
    h("video", {
      ...video,
      key: "remote",
      class: isSeen ? "remote" : "remote unseen",
      muted: call.isHeld,
      srcObject: remote,
      "aria-label": `Video of ${name}`,
      onmount: media.mounted,
    }),
    !isSeen && avatar(call.peer?.user ?? call.callee, name, "huge"),
    call.hasCamera && !call.end && h("video", { ...video, ...own, srcObject: local }),
  );
}

function about(model, call) {
  const since = call.answeredAtMs;
  const lasted = clockText((call.end ? call.endedAtMs : model.nowMs) - since);
  return h(
    "div",
    { class: "about" },
    h("h2", { tabindex: "-1", onmount: focus }, peerName(model, call)),
    h("p", { class: "status" }, statusText(model, call)),
    since > 0 && h("p", { class: "clock" }, h("span", { class: "sr" }, "Duration "), lasted),
    isTalking(call) && h("p", { class: "quiet where" }, whereText(model, call)),
    call.transfer && !call.end && h("p", { class: "status transfer" }, transferText(model, call)),
  );
}

const on = (isOn) => (isOn ? { class: "on" } : {});

function controls(model, act, call) {
  const { id, isMuted, hasCamera, isHeld } = call;
  const talks = isTalking(call);
  const camera = hasCamera ? ["camera", "Camera off"] : ["cameraOff", "Camera on"];
  const mute = isMuted ? ["microphoneOff", "Unmute"] : ["microphone", "Mute"];
  const hold = isHeld ? ["resume", "Resume"] : ["hold", "Hold"];
  return h(
    "div",
    { class: "controls" },
    button("mute", ...mute, () => act.mute(id, !isMuted), on(isMuted)),
    button("camera", ...camera, () => act.camera(id, !hasCamera)),
    talks && button("hold", ...hold, () => act.hold(id, !isHeld), on(isHeld)),
    talks && transferControl(act, call),
    handOver(model, act, call),
    button("media", "sliders", "Devices…", () => act.dialog({ kind: "media", id })),
    button("hang-up", "hangUp", talks ? "Hang up" : "Cancel", () => act.hangUp(id), bad),
  );
}

function transferControl(act, { id, transfer, asksFor }) {
  if (transfer && !transfer.reason) {
    return button("cancel-transfer", "close", "Keep the call", () => act.cancelTransfer(id));
  }
  return !asksFor && button("transfer", "transfer", "Hand over…", () => act.dialog({ kind: "transfer", id }));
}

/** This call asks somebody to take another one: hands that one over. */
function handOver(model, act, call) {
  const first = call.asksFor && findCall(model, call.asksFor);
  if (!first || first.end || !isTalking(first) || !isTalking(call)) return null;
  return button("hand-over", "transfer", `Hand ${peerName(model, first)} over`, () => act.handOver(call.id), good);
}

const endControls = (act, call) =>
  h(
    "div",
    { class: "controls" },
    button("again", "phone", "Call again", () => act.dial(call.peer?.user || call.callee, call.video)),
    button("close", "close", "Close", () => act.dismiss(call.id)),
  );

/** Calls beside the one in the middle. */
export const beside = (model, act, media) =>
  otherCalls(model).map((call) =>
    h(
      "div",
      { class: "banner", key: `beside ${call.id}`, "data-call": call.id },
      h("p", null, h("b", null, peerName(model, call)), `: ${statusText(model, call)}`),
      call.end
        ? button("close", "close", "Close", () => act.dismiss(call.id))
        : besideControls(act, call, media),
    ),
  );

const besideControls = (act, call, media) => [
  h("audio", { key: "sound", autoplay: true, muted: call.isHeld, srcObject: media(call.id).remote }),
  isTalking(call) && button("hold", "resume", "Go on with this call", () => act.hold(call.id, false)),
  button("hang-up", "hangUp", "Hang up", () => act.hangUp(call.id), bad),
];
