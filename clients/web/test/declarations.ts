// A page in TypeScript: the compiler reads it with the declarations, and nothing runs it (deploy/dev/web-types.sh).

import { Call, CallMedia, CallmeshError, Device, enablePush } from "../callmesh.js";

const device = new Device({
  edges: ["wss://edge.example"],
  device: "ann-browser",
  deviceName: "Ann's browser",
  getToken: async () => "token",
  ongoing: true,
});

device.on("incoming", ({ call }) => take(call));
device.on("taken", ({ call }) => call.connected());
device.on("refused", ({ error }) => console.error(error.code, error.codeName, error.retryAfterMs));
device.start();

async function take(call: Call): Promise<void> {
  await call.alerting();
  call.onSignal(({ kind, body }) => console.log(kind, body));
  call.on("ended", ({ reason, missed, by }) => console.log(reason, missed, by?.deviceName));
  const won: boolean = await call.answer("v=0");
  if (!won) await call.decline();
}

async function place(stream: MediaStream): Promise<string> {
  const media = await CallMedia.place(device, "bob", { stream });
  media.on("track", ({ track }) => track.kind);
  try {
    const state = await media.call?.placed;
    return state?.phase ?? "";
  } catch (error) {
    if (error instanceof CallmeshError) return String(error.code);
    throw error;
  }
}

// @ts-expect-error: there is no such event.
device.on("incomming", () => {});
// @ts-expect-error: a callee is a text.
device.place(7);
void place;
void enablePush;
