// Calls that ring while no page is open: Web Push. `callmesh-sw.js` is the other half.

import { CallmeshError } from "./errors.js";

/** A registration holds at most so many bytes of a subscription. */
const tokenBytesMax = 1024;

/** The capabilities of the service worker for pushes of this kind. */
const capabilities = ["ended", "missedNotice"];

/**
 * Subscribes this browser to pushes and registers it with the cluster. Call it at each start of the page, when the
 * device is attached: a browser may give a new subscription, and a registration ends after 90 days.
 *
 * The first time browsers ask the user, and want that to follow a click.
 * @param options
 *   `publicKey`: the public half of the cluster's VAPID key, base64url;
 *   `worker`: the address of `callmesh-sw.js` on the page's own origin;
 *   `edges`, `page`, `texts`, `icon`: what the service worker needs, see README.md;
 *   `deviceName`: as in `register`
 * @returns the registration as the cluster has it
 */
export async function enablePush(device, options, browser = globalThis) {
  const { publicKey, worker = "./callmesh-sw.js", deviceName } = options;
  const container = browser.navigator?.serviceWorker;
  if (!container || !browser.PushManager) {
    throw new CallmeshError(903, "This browser has no Web Push, or the page is not at https.");
  }
  const permission = await browser.Notification.requestPermission();
  if (permission !== "granted") throw new CallmeshError(903, `The user's permission is: ${permission}.`);
  const registration = await container.register(workerUrl(worker, options), { scope: options.scope });
  await container.ready;
  const subscription = await subscribe(registration, publicKey);
  const request = {
    alertToken: { provider: "webPush", token: tokenOf(subscription) },
    sdkName: "CallmeshWeb",
    sdkVersion: "1.0",
    capabilities,
  };
  if (deviceName) request.deviceName = deviceName;
  return device.register(request);
}

/** Ends pushes to this browser: the user signs out. */
export async function disablePush(device, browser = globalThis) {
  await device.unregister();
  const registration = await browser.navigator?.serviceWorker?.getRegistration();
  const subscription = await registration?.pushManager.getSubscription();
  await subscription?.unsubscribe();
}

/** The worker reads its settings from its address, since it starts without any page. */
function workerUrl(worker, { edges, page, texts, icon, quietEnd }) {
  const url = new URL(worker, globalThis.location?.href ?? "https://localhost/");
  const settings = { edges, page, texts, icon, quietEnd };
  url.searchParams.set("callmesh", JSON.stringify(settings));
  return url.href;
}

async function subscribe(registration, publicKey) {
  const key = bytesOf(publicKey);
  const present = await registration.pushManager.getSubscription();
  if (present) {
    const presentKey = present.options?.applicationServerKey;
    if (!presentKey || isSame(new Uint8Array(presentKey), key)) return present;
    // The cluster's key is another one. A subscription with the old one gets no pushes.
    await present.unsubscribe();
  }
  return registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
}

function tokenOf(subscription) {
  const { endpoint, keys } = subscription.toJSON();
  const token = JSON.stringify({ endpoint, keys: { p256dh: keys.p256dh, auth: keys.auth } });
  if (token.length > tokenBytesMax) throw new CallmeshError(301, "The subscription is too long.");
  return token;
}

function bytesOf(base64url) {
  const text = atob(base64url.replace(/-/g, "+").replace(/_/g, "/"));
  const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
  if (bytes.length !== 65) throw new CallmeshError(903, "The public key is not one of VAPID: 65 bytes as base64url.");
  return bytes;
}

const isSame = (a, b) => a.length === b.length && a.every((byte, index) => byte === b[index]);

/**
 * Lets pushes and clicks on notifications reach the device: a call that was pushed is asked for at once, and one that
 * was answered in a notification has `call.isWanted`, or the event `wanted` where it rings already.
 *
 * Call it once, before `device.start()`.
 * @returns a function that ends it
 */
export function followPushes(device, browser = globalThis) {
  const take = (news) => {
    if (typeof news?.call !== "string" || typeof news.callee !== "string") return;
    if (news.action === "ring") device.wake({ id: news.call, callee: news.callee });
    if (news.action === "answer") device.wake({ id: news.call, callee: news.callee, isWanted: true });
  };
  take(takeFragment(browser));
  const container = browser.navigator?.serviceWorker;
  const listener = (event) => take(event.data?.callmesh);
  container?.addEventListener("message", listener);
  container?.startMessages?.();
  return () => container?.removeEventListener("message", listener);
}

/** A page that a notification opened has the call in its address. It is taken out, so that a reload does not answer. */
function takeFragment(browser) {
  const { location, history } = browser;
  const match = /^#callmesh=(.+)$/.exec(location?.hash ?? "");
  if (!match) return null;
  history?.replaceState(null, "", location.pathname + location.search);
  try {
    return JSON.parse(decodeURIComponent(match[1]));
  } catch {
    return null;
  }
}
