"""Chromium windows that are phones, driven through selenium. Waits poll for what they wait for."""

import os
import pathlib
import shutil
import tempfile
import urllib.parse

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from access import Access
from media import Media
from waiting import until
from workers import Worker

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    # Pictures are encoded by the processor. A few a second show as much as many. The second camera of three gives a format that
    # is shown, and not sent.
    "--use-fake-device-for-media-stream=fps=5,device-count=3",
    "--use-fake-ui-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
    # Windows behind others count as hidden, and would be slowed down.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-gpu",
    "--mute-audio",
    "--no-first-run",
    # The certificates are made for a run.
    "--ignore-certificate-errors",
    "--disable-background-networking",
    "--disable-component-update",
    "--force-device-scale-factor=1",
]


def program(name, *others):
    for candidate in (name, *others):
        if path := shutil.which(candidate):
            return path
    raise SystemExit(f"phone-test: {name} is missing; Debian: apt-get install chromium chromium-driver")


class Browser:
    """One Chromium with a profile of its own."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="callmesh-phone-test-")
        options = webdriver.ChromeOptions()
        options.binary_location = program("chromium", "chromium-browser", "google-chrome")
        for flag in [*FLAGS, f"--user-data-dir={self.profile}", "--window-size=1100,800"]:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(program("chromedriver")))
        self.free = [self.driver.current_window_handle]

    def window(self):
        if self.free:
            return self.free.pop()
        self.driver.switch_to.new_window("window")
        return self.driver.current_window_handle

    def quit(self):
        try:
            self.driver.quit()
        except WebDriverException:
            pass
        shutil.rmtree(self.profile, ignore_errors=True)


class Phone(Access, Media):
    """One window, in which a user is signed in."""

    def __init__(self, browser, handle=None):
        self.browser = browser
        self.handle = handle or browser.window()

    @property
    def driver(self):
        if self.browser.driver.current_window_handle != self.handle:
            self.browser.driver.switch_to.window(self.handle)
        return self.browser.driver

    def sign_in(self, root, user, device, **query):
        text = urllib.parse.urlencode({"user": user, "device": device, **query})
        self.driver.get(f"{root}/phone/?{text}")
        self.ready()
        return self

    def copy(self):
        """A window with this one's page and a copy of its session storage, as a tab has that the user duplicates."""
        before = set(self.driver.window_handles)
        self.js("window.open(location.href)")
        [handle] = until("the copy", lambda: set(self.driver.window_handles) - before)
        copy = Phone(self.browser, handle)
        copy.ready()
        return copy

    def ready(self):
        until("being attached", lambda: self.js("return callmeshPhone?.device.state") == "attached")

    def leave(self):
        """Shows an empty page, so that nobody is signed in here."""
        self.driver.get("about:blank")

    def js(self, script, *arguments):
        try:
            return self.driver.execute_script(script.replace("callmeshPhone", "globalThis.callmeshPhone"), *arguments)
        except WebDriverException as error:
            if "JavascriptException" in type(error).__name__:
                return None
            raise

    # The content of the page.

    def texts(self, selector):
        return [element.text for element in self.driver.find_elements(By.CSS_SELECTOR, selector)]

    def text(self):
        return self.driver.find_element(By.TAG_NAME, "body").text

    def sees(self, *texts):
        for text in texts:
            until(lambda: f"“{text}” on the page of {self.name}; it says: {self.text()!r}", lambda: text in self.text())
        return self

    def sees_not(self, selector):
        until(f"no {selector}", lambda: not self.driver.find_elements(By.CSS_SELECTOR, selector))
        return self

    @property
    def name(self):
        return self.js("return callmeshPhone?.device.user + ' on ' + document.title")

    def has(self, selector):
        return bool(self.driver.find_elements(By.CSS_SELECTOR, selector))

    # Actions of the user.

    def press(self, selector):
        def attempt():
            found = self.driver.find_elements(By.CSS_SELECTOR, selector)
            if not found or not found[0].is_enabled():
                return False
            try:
                found[0].click()
            except WebDriverException as error:
                if "click intercepted" in str(error) or "not interactable" in str(error):
                    return False
                raise
            return True

        until(lambda: f"{selector} to press at {self.name}; it says: {self.text()!r}", attempt)
        return self

    def do(self, what):
        return self.press(f"[data-do='{what}']")

    def call(self, name, video=False):
        return self.press(f"[aria-label='Call {name}{' with video' if video else ''}']")

    def choose(self, selector, value):
        # The rules have to be loaded first.
        until(f"{selector} to be enabled", lambda: self.driver.find_element(By.CSS_SELECTOR, selector).is_enabled())
        Select(self.driver.find_element(By.CSS_SELECTOR, selector)).select_by_value(value)
        return self

    def type(self, selector, text):
        self.driver.find_element(By.CSS_SELECTOR, selector).send_keys(text)
        return self

    def unread(self):
        badges = self.texts("#tab-history .badge")
        return int(badges[0]) if badges else 0

    def rings(self):
        until(lambda: f"ringing at {self.name}; it says: {self.text()!r}", lambda: self.has(".card.ringing"))
        return self

    def talks(self):
        until(lambda: f"a connected call at {self.name}; it says: {self.text()!r}", lambda: self.state() == "connected")
        return self

    def state(self):
        found = self.driver.find_elements(By.CSS_SELECTOR, ".card.call")
        return found[0].get_attribute("data-state") if found else None

    def lasted(self):
        """The seconds that the clock of the call shows; None: there is none."""
        text = self.js("return document.querySelector('.card.call .clock').lastChild.data")
        return text and sum(int(part) * unit for part, unit in zip(text.split(":"), (60, 1)))

    def counts(self, seconds=1):
        """Waits until the clock of the call has gone on by so many seconds."""
        end = until(f"a clock at {self.name}", lambda: (now := self.lasted()) is not None and now + seconds)
        until(lambda: f"the clock at {self.name} to go on", lambda: (self.lasted() or 0) >= end)
        return self

    def shot(self, name):
        if folder := os.environ.get("PHONE_SHOTS"):
            pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
            self.driver.save_screenshot(f"{folder}/{name}.png")

    def show(self, width=0, height=0, scheme="light"):
        """The size of the window, and whether the system is light or dark. Without a size: as it was."""
        command = self.driver.execute_cdp_cmd
        if width:
            size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            command("Emulation.setDeviceMetricsOverride", size)
        else:
            command("Emulation.clearDeviceMetricsOverride", {})
        command("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def worker(self, origin):
        """The service worker of an origin in this browser."""
        return Worker(self.browser, origin)

    def at_start(self, script):
        """Runs a script in this window before those of each page from now on. Returns what ends that."""
        command = self.driver.execute_cdp_cmd
        added = command("Page.addScriptToEvaluateOnNewDocument", {"source": script})

        def remove():
            self.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)

        return remove

    def network(self, is_offline):
        """Takes the network away from the page, or gives it back."""
        command = self.driver.execute_cdp_cmd
        command("Network.enable", {})
        conditions = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        command("Network.emulateNetworkConditions", {"offline": is_offline, **conditions})

    def errors(self):
        """What the browser has reported as errors since the last time."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
