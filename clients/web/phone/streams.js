// Microphones, cameras and loudspeakers of this browser.

const storageKey = "callmesh-phone-media";
const kinds = { audio: "microphone", video: "camera" };

/** Opens what a call sends, with the devices that the user has chosen. */
export class Streams {
  #storage;
  #browser;

  constructor({ storage = globalThis.localStorage, browser = globalThis.navigator?.mediaDevices } = {}) {
    this.#storage = storage;
    this.#browser = browser;
    /** Ids of the chosen devices, by `audio`, `video` and `output`. */
    this.chosen = readChosen(storage);
  }

  choose(kind, id) {
    this.chosen = { ...this.chosen, [kind]: id };
    this.#storage?.setItem(storageKey, JSON.stringify(this.chosen));
  }

  /**
   * Opens the microphone, and the camera as well for `video`. What cannot be opened is left out.
   * @returns the stream, and a sentence for each thing that is missing
   */
  async open({ video = false } = {}) {
    const stream = new MediaStream();
    const problems = [];
    for (const kind of video ? ["audio", "video"] : ["audio"]) {
      try {
        stream.addTrack(await this.track(kind));
      } catch (error) {
        problems.push(problemText(kind, error));
      }
    }
    return { stream, problems };
  }

  /** Opens one track. A chosen device that is gone is not insisted on. */
  async track(kind) {
    if (!this.#browser) throw new DOMException("The page is not at https or localhost.", "NotSupportedError");
    const id = this.chosen[kind];
    const wish = kind === "video" ? { width: { ideal: 1280 }, height: { ideal: 720 } } : { echoCancellation: true };
    const open = async (device) => (await this.#browser.getUserMedia({ [kind]: { ...wish, ...device } })).getTracks()[0];
    if (!id) return open({});
    try {
      // Chromium takes the default in place of an ideal device.
      return await open({ deviceId: { exact: id } });
    } catch (error) {
      if (error.name !== "OverconstrainedError" && error.name !== "NotFoundError") throw error;
      return open({});
    }
  }

  /** The devices that can be chosen, by kind. Without permission browsers do not name them. */
  async list() {
    const all = (await this.#browser?.enumerateDevices()) ?? [];
    const of = (kind) =>
      all
        .filter((device) => device.kind === kind && device.deviceId)
        .map(({ deviceId, label }, index) => ({ id: deviceId, label: label || `${words[kind]} ${index + 1}` }));
    const speakers = of("audiooutput");
    return { microphones: of("audioinput"), cameras: of("videoinput"), speakers, chosen: this.chosen };
  }

  /** Has these elements play at the chosen loudspeaker, where the browser lets the page choose. */
  playAtChosen(elements) {
    const { output } = this.chosen;
    if (output === undefined) return;
    for (const element of elements) element.setSinkId?.(output).catch(() => {});
  }

  /** Calls `changed` when a device is plugged in or out. */
  watch(changed) {
    this.#browser?.addEventListener?.("devicechange", changed);
  }
}

const words = { audioinput: "Microphone", videoinput: "Camera", audiooutput: "Loudspeaker" };

function readChosen(storage) {
  try {
    return JSON.parse(storage?.getItem(storageKey) ?? "{}") ?? {};
  } catch {
    return {};
  }
}

/** Why there is no microphone or camera, and what follows. */
export function problemText(kind, error) {
  const what = kinds[kind];
  const result = kind === "audio" ? "Nobody will hear you." : "Nobody will see you.";
  switch (error?.name) {
    case "NotAllowedError":
      return `The browser does not allow the ${what}. ${result} Allow it in the browser's settings for this page.`;
    case "NotFoundError":
      return `There is no ${what}. ${result}`;
    case "NotReadableError":
      return `Another program uses the ${what}. ${result}`;
    default:
      return `The ${what} does not work: ${error?.message ?? error}. ${result}`;
  }
}

export const stopStream = (stream) => stream?.getTracks().forEach((track) => track.stop());
