// Draws a tree of plain values into the document, and changes only what differs. So a video goes on playing and the
// focus stays where it is, however often the page is drawn.

const svgTags = new Set(["svg", "path", "circle"]);
/** The names that are set on the element itself. Everything else is an attribute. */
const properties = new Set(["srcObject", "muted", "disabled", "checked", "selected", "hidden"]);

/**
 * Describes an element.
 * @param props attributes; `on…`: listeners; `key`: identifies it among its siblings; `onmount(element)`: it is new
 */
export function h(tag, props, ...children) {
  const { key, onmount, ...rest } = props ?? {};
  const list = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  return { tag, key, onmount, props: rest, children: list.map((child) => (child.tag ? child : String(child))) };
}

/** Makes the children of `parent` those that `nodes` describes. */
export function draw(parent, nodes) {
  const free = [...parent.childNodes];
  const take = (node) => {
    const index = free.findIndex((element) => isSame(element, node));
    return index < 0 ? null : free.splice(index, 1)[0];
  };
  const chosen = nodes.map((node) => [node, take(node)]);
  for (const element of free) element.remove();
  const mounted = [];
  chosen.forEach(([node, found], index) => {
    const element = found ?? create(node);
    if (parent.childNodes[index] !== element) parent.insertBefore(element, parent.childNodes[index] ?? null);
    update(element, node);
    if (!found && node.onmount) mounted.push([node, element]);
  });
  for (const [node, element] of mounted) node.onmount(element);
}

const isSame = (element, node) =>
  typeof node === "string"
    ? element.nodeType === 3
    : element.nodeName.toLowerCase() === node.tag && element.drawnKey === node.key;

function create(node) {
  if (typeof node === "string") return document.createTextNode(node);
  const element = svgTags.has(node.tag)
    ? document.createElementNS("http://www.w3.org/2000/svg", node.tag)
    : document.createElement(node.tag);
  element.drawnKey = node.key;
  element.drawnProps = {};
  return element;
}

function update(element, node) {
  if (typeof node === "string") {
    if (element.data !== node) element.data = node;
    return;
  }
  const former = element.drawnProps;
  for (const name of Object.keys(former)) if (!(name in node.props)) set(element, name, undefined);
  for (const [name, value] of Object.entries(node.props)) {
    // Properties that users change themselves are set where the description has changed.
    if (former[name] !== value) set(element, name, value);
  }
  element.drawnProps = node.props;
  draw(element, node.children);
}

function set(element, name, value) {
  if (name.startsWith("on")) element[name] = value ?? null;
  else if (properties.has(name)) element[name] = value ?? (name === "srcObject" ? null : false);
  else if (value === undefined || value === null || value === false) element.removeAttribute(name);
  else element.setAttribute(name, value === true ? "" : value);
}
