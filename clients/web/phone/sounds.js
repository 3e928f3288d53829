// Sounds for ringing, made with WebAudio: there are no files to load.

/** Each pattern is a list of `[frequencies, from, to]` in seconds, and repeats after `every`. */
const patterns = {
  ring: {
    every: 3,
    tones: [
      [[660, 880], 0, 0.35],
      [[550, 740], 0.4, 0.75],
      [[660, 880], 0.9, 1.3],
    ],
    volume: 0.2,
  },
  waiting: { every: 4, tones: [[[480], 0, 0.15], [[480], 0.3, 0.45]], volume: 0.08 },
  ringback: { every: 4, tones: [[[425], 0, 1]], volume: 0.08 },
};

/** Plays one of the patterns at a time. */
export class Sounds {
  #context = null;
  #playing = null;
  #timer = null;
  #voices = [];

  /** Whether the browser lets the page play: it wants a click first. */
  get isAllowed() {
    return this.#context?.state === "running";
  }

  /** Call it in a click: from then on the page may play. @returns a promise */
  async allow() {
    const Context = globalThis.AudioContext;
    if (!Context) return;
    this.#context ??= new Context();
    await this.#context.resume();
  }

  /** Plays a pattern until another one is asked for; null: silence. */
  play(name) {
    if (name === this.#playing) return;
    this.#playing = name;
    this.#silence();
    if (name) this.#repeat(patterns[name]);
  }

  #repeat(pattern) {
    if (this.isAllowed) {
      const start = this.#context.currentTime + 0.02;
      for (const [frequencies, from, to] of pattern.tones) {
        for (const frequency of frequencies) this.#tone(frequency, start + from, start + to, pattern.volume);
      }
    }
    this.#timer = setTimeout(() => this.#repeat(pattern), pattern.every * 1000);
  }

  #tone(frequency, from, to, volume) {
    const context = this.#context;
    const [voice, loudness] = [context.createOscillator(), context.createGain()];
    voice.frequency.value = frequency;
    // Tones that begin at once click.
    loudness.gain.setValueAtTime(0, from);
    loudness.gain.linearRampToValueAtTime(volume, from + 0.02);
    loudness.gain.setValueAtTime(volume, to - 0.04);
    loudness.gain.linearRampToValueAtTime(0, to);
    voice.connect(loudness).connect(context.destination);
    voice.start(from);
    voice.stop(to);
    this.#voices.push(voice);
    voice.onended = () => (this.#voices = this.#voices.filter((other) => other !== voice));
  }

  #silence() {
    clearTimeout(this.#timer);
    for (const voice of this.#voices.splice(0)) voice.stop();
  }
}
