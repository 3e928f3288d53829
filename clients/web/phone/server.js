// Requests of the page to its own server. `make phone` is such a server for development: it gives a token to anybody
// who can open the page. An app puts its own sign-in here.

async function get(path, query = {}) {
  const url = new URL(path, location.origin);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  const response = await fetch(url, { cache: "no-store" });
  if (!response.ok) throw new Error(`The server answered with ${response.status}: ${(await response.text()).trim()}`);
  return response.json();
}

/**
 * @returns `{edges, contacts, rtc, push}`. A contact is `{user, name}`; one that is a group has `members`, who ring together.
 *   `push` holds the `publicKey` of the cluster's pushes
 */
export const settings = () => get("/development/settings");

/** @returns a token of the user */
export const token = async (user) => (await get("/development/token", { user })).token;
