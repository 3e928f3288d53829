// The part of `node:assert/strict` that test/fuzz.test.js uses, for browsers.

function ok(value, message = `${value} is not truthy`) {
  if (!value) throw new Error(message);
}

const text = (value) => JSON.stringify(value);

export default {
  ok,
  equal: (actual, expected, message = `${text(actual)} is not ${text(expected)}`) => ok(Object.is(actual, expected), message),
  notEqual: (actual, other, message = `it is ${text(actual)}`) => ok(!Object.is(actual, other), message),
  deepEqual: (actual, expected, message = "") =>
    ok(text(actual) === text(expected), `${message}: ${text(actual)} is not ${text(expected)}`),
};
