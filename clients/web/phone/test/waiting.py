"""How the tests wait: by asking again until something is so."""

import time

from selenium.common.exceptions import StaleElementReferenceException

# A wait that takes this long has failed. Nothing is measured by it.
PATIENCE_SECONDS = 60
PAUSE_SECONDS = 0.05


def until(what, condition):
    """Polls until `condition` gives something, and returns it.

    `what` says what is waited for, as a text or as a function that makes one when the wait was in vain.
    """
    end = time.monotonic() + PATIENCE_SECONDS
    last = None
    while time.monotonic() < end:
        try:
            last = condition()
            if last:
                return last
        except StaleElementReferenceException as error:
            # The page has drawn the element anew.
            last = error
        time.sleep(PAUSE_SECONDS)
    raise AssertionError(f"waited in vain for {what() if callable(what) else what}; at last: {last!r}")
