// Reports of a page to its device: that it can be seen again, that the browser keeps it for a way back, that the
// network changed, and that another page has the device's id.

/**
 * Tells `device` when its page is hidden, shown, kept for a way back, or online again.
 * @param target the page's `window` and `document`, or a test's
 * @returns a function that ends it
 */
export function watchPage(device, target = globalThis) {
  const { document, navigator } = target;
  if (!document?.addEventListener || !target.addEventListener) return () => {};
  const shown = () => {
    device.setHidden(document.visibilityState === "hidden");
    if (document.visibilityState !== "hidden") device.probe();
  };
  const probe = () => device.probe();
  const listened = [
    [document, "visibilitychange", shown],
    [document, "resume", probe],
    [target, "pagehide", ({ persisted }) => persisted && device.suspend()],
    [target, "pageshow", probe],
    [target, "online", probe],
    [navigator?.connection, "change", probe],
  ].filter(([source]) => source?.addEventListener);
  for (const [source, name, listener] of listened) source.addEventListener(name, listener);
  device.setHidden(document.visibilityState === "hidden");
  return () => {
    for (const [source, name, listener] of listened) source.removeEventListener(name, listener);
  };
}

/**
 * Calls `changed` when the network changes.
 * @param environment the page's `window`, or a test's
 * @returns a function that ends it
 */
export function watchNetwork(changed, environment = globalThis) {
  const sources = [
    [environment, "online"],
    [environment.navigator?.connection, "change"],
  ].filter(([source]) => typeof source?.addEventListener === "function");
  for (const [source, name] of sources) source.addEventListener(name, changed);
  return () => {
    for (const [source, name] of sources) source.removeEventListener(name, changed);
  };
}

/**
 * Waits until this page is the only one with the device's id. Two pages with one id would replace each other's session,
 * so a further tab waits until the first one is closed, or gives the id up.
 * @param options
 *   - `signal` ends the wait
 *   - `onHeld(ask)`: another tab has the id. `ask()` asks it to give the id up
 *   - `onAsked()`: another tab asks this one for the id. true gives it up: `device.leave()` first, and no call may go on here
 *   - `locks` is `navigator.locks`, and `Channel` is `BroadcastChannel`, or those of a test
 * @returns a function that gives the id free
 */
export async function holdDevice(id, options = {}) {
  const { signal, onHeld, onAsked, locks = globalThis.navigator?.locks, Channel = globalThis.BroadcastChannel } = options;
  if (!locks) return () => {};
  const name = `callmesh-device-${id}`;
  const channel = Channel && (onHeld || onAsked) ? new Channel(name) : null;
  const request = (lockOptions) =>
    new Promise((resolve, reject) => {
      const hold = (lock) => (lock === null ? void resolve(null) : new Promise((release) => resolve(() => (channel?.close(), release()))));
      locks.request(name, lockOptions, hold).catch(reject);
    });
  try {
    let release = onHeld ? await request({ ifAvailable: true }) : null;
    if (!release) {
      onHeld?.(() => channel?.postMessage("ask"));
      release = await request(signal ? { signal } : {});
    }
    if (channel) channel.onmessage = ({ data }) => data === "ask" && onAsked?.() && release();
    return release;
  } catch (error) {
    channel?.close();
    throw error;
  }
}

/** An id for this browser's device: drawn once, and kept in `storage`. */
export function deviceId(prefix = "web", { storage = globalThis.localStorage, uuid = () => crypto.randomUUID() } = {}) {
  const key = "callmesh-device";
  let id = storage?.getItem(key);
  if (!id) {
    id = `${prefix}-${uuid()}`;
    storage?.setItem(key, id);
  }
  return id;
}
