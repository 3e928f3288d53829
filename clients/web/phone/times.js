// Times and durations as people read them. Pure functions.

const two = (number) => String(number).padStart(2, "0");

/** `0:07`, `12:30`, `1:02:03`. */
export function clockText(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor(seconds / 60) % 60;
  return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

/** `7 seconds`, `2 minutes 5 seconds`, `1 hour 2 minutes`. */
export function durationText(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const parts = [
    [Math.floor(seconds / 3600), "hour"],
    [Math.floor(seconds / 60) % 60, "minute"],
    [seconds % 60, "second"],
  ].filter(([count]) => count > 0);
  if (parts.length === 0) return "0 seconds";
  return parts.slice(0, 2).map(([count, unit]) => `${count} ${unit}${count === 1 ? "" : "s"}`).join(" ");
}

const dayOf = (ms) => new Date(ms).setHours(0, 0, 0, 0);
const dayMs = 86_400_000;

/** `14:03`, `Yesterday, 14:03`, `Mon, 3 Mar, 14:03`. */
export function whenText(ms, nowMs, locale) {
  const time = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit" }).format(ms);
  const days = Math.round((dayOf(nowMs) - dayOf(ms)) / dayMs);
  if (days === 0) return time;
  if (days === 1) return `Yesterday, ${time}`;
  return `${new Intl.DateTimeFormat(locale, { weekday: "short", day: "numeric", month: "short" }).format(ms)}, ${time}`;
}

/** Eight o'clock on the next morning. */
export function tomorrowMorning(nowMs) {
  const morning = new Date(nowMs);
  morning.setHours(8, 0, 0, 0);
  if (morning.getTime() <= nowMs) morning.setDate(morning.getDate() + 1);
  return morning.getTime();
}
