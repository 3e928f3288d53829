// Plays one situation, and judges it.

import { Failed } from "./ground.js";
import { Stage } from "./stage.js";

/** @returns `{situation, encoding, outcome, problems, lines}`; outcomes are `passed`, `failed`, `skipped` and `known` */
export async function play({ situation, encoding, command, known = [] }) {
  const { number, edges = 2, needs = [], encodings = null } = situation;
  const result = { situation, encoding, outcome: "passed", problems: [], lines: [] };
  if (encodings && !encodings.includes(encoding)) return { ...result, outcome: "skipped", problems: [`It is of ${encodings.join(" and ")} alone.`] };
  const stage = new Stage({ command, encoding, needs });
  try {
    const missing = await stage.open(edges);
    if (missing.length > 0) return { ...result, outcome: "skipped", problems: [`The client has no ${missing.join(", ")}.`] };
    await situation.play(stage);
    await stage.finish();
  } catch (error) {
    result.problems.push(error instanceof Failed ? error.message : String(error.stack ?? error));
  } finally {
    stage.close();
  }
  result.problems.push(...stage.rules.problems);
  result.lines = stage.lines;
  if (stage.adapter?.errors) result.lines.push(stage.adapter.errors);
  if (result.problems.length > 0) result.outcome = known.includes(String(number)) ? "known" : "failed";
  return result;
}
