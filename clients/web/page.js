// Reports of a page to its device: that it can be seen again, that the network changed, and that another page has the
// device's id.

/**
 * Tells `device` when its page is hidden, shown, or online again.
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
 * so a further tab waits until the first one is closed.
 * @param options `signal` ends the wait; `locks` is `navigator.locks`, or a test's
 * @returns a function that gives the id free
 */
export function holdDevice(id, { signal, locks = globalThis.navigator?.locks } = {}) {
  if (!locks) return Promise.resolve(() => {});
  return new Promise((resolve, reject) => {
    const hold = () =>
      new Promise((release) => {
        resolve(release);
      });
    locks.request(`callmesh-device-${id}`, signal ? { signal } : {}, hold).catch(reject);
  });
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
