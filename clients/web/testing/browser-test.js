// The part of `node:test` that test/fuzz.test.js uses, for browsers.

const tests = [];

export function test(name, body) {
  tests.push({ name, body });
}

/** Runs all tests. @returns `{name, error}` of each; `error` is null where the test has passed */
export async function results() {
  const all = [];
  for (const { name, body } of tests) {
    let error = null;
    try {
      await body();
    } catch (cause) {
      error = String(cause?.stack ?? cause);
    }
    all.push({ name, error });
  }
  return all;
}
