"""What a phone's page is without eyes and without a mouse."""

import importlib.util
import pathlib

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from waiting import until

AXE = pathlib.Path(importlib.util.find_spec("axe_playwright_python").origin).with_name("axe.min.js").read_text()


class Access:
    """A part of `Phone`."""

    def read_out(self):
        """The roles and names of what the browser shows to screen readers. A status or an alert has what it says as its name."""
        tree = {node["nodeId"]: node for node in self.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]}

        def value(node, key):
            return node.get(key, {}).get("value", "").strip()

        def text(node):
            below = [text(tree[child]) for child in node.get("childIds", []) if child in tree]
            return value(node, "name") if value(node, "role") == "StaticText" else "".join(below)

        shown = [node for node in tree.values() if not node.get("ignored")]
        names = [(value(node, "role"), value(node, "name")) for node in shown]
        return names + [(value(node, "role"), text(node)) for node in shown if value(node, "role") in ("status", "alert")]

    def nameless(self):
        """Buttons, fields and dialogs that a screen reader could not name."""
        wanted = {"button", "textbox", "combobox", "tab", "dialog", "alertdialog", "list", "tabpanel"}
        return [role for role, name in self.read_out() if role in wanted and not name]

    def faults(self):
        """What axe-core has against the page as it is now."""
        self.driver.execute_script("if (!globalThis.axe) (0, eval)(arguments[0])", AXE)
        found = self.driver.execute_async_script(
            "const done = arguments[0];"
            "axe.run({ resultTypes: ['violations'] }).then(({ violations }) => done(violations), (error) => done([{ id: String(error) }]))"
        )
        return [f"{one['id']}: {[node['html'] for node in one.get('nodes', [])]}" for one in found]

    def tab_to(self, name):
        """Presses the tab key until the button of this name has the focus."""
        focused = "const it = document.activeElement; return it.getAttribute('aria-label') || it.textContent"

        def is_there():
            if self.js(focused) == name:
                return True
            self._keys(Keys.TAB)
            return self.js(focused) == name

        until(lambda: f"the focus on {name} at {self.name}; it is on {self.js(focused)!r}", is_there)
        return self

    def enter(self):
        return self._keys(Keys.ENTER)

    def escape(self):
        return self._keys(Keys.ESCAPE)

    def _keys(self, key):
        ActionChains(self.driver).send_keys(key).perform()
        return self
