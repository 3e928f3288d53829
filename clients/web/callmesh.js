/**
 * The JavaScript client of Callmesh, for pages in browsers. It has no dependencies and needs no build step.
 *
 * ```js
 * import { Device, CallMedia } from "./callmesh.js";
 * const device = new Device({ edges: ["https://edge.example"], device: "ann-browser", getToken });
 * device.on("incoming", ({ call }) => call.alerting());
 * device.start();
 * const media = await CallMedia.place(device, "bob", { stream });
 * ```
 *
 * `callmesh.d.ts` declares and README.md explains what is exported here. The other modules of the folder are its parts.
 *
 * | module | what it does |
 * |---|---|
 * | `machine*.js`, `call-view.js` | the protocol, without I/O: events go in, effects come out |
 * | `driver.js`, `connection.js` | sockets, the timer, tokens |
 * | `device.js`, `call.js`, `user-data.js` | what an app sees |
 * | `media.js` | a call's `RTCPeerConnection` |
 * | `push.js`, `callmesh-sw.js` | calls that ring while no page is open |
 * | `page.js` | visibility, network changes, several tabs |
 */
export { Device } from "./device.js";
export { Call } from "./call.js";
export { CallmeshError, endReasons, errorNames } from "./errors.js";
export { CallMedia } from "./media.js";
export { deviceId, holdDevice } from "./page.js";
export { disablePush, enablePush, followPushes } from "./push.js";
export const version = "1.0.0";
