"""The phone as other machines have it: page and edges with TLS."""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from cluster import PROGRAMS, Child
from phones import PhoneTest
from waiting import until


def own_address():
    """An IPv4 address under which other machines reach this one; None: it has none."""
    found = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout.split()
    return next((address for address in found if "." in address), None)


class WithTLS(PhoneTest):
    # Only loopback, so that nobody else reaches it while it is tested.
    host = "127.0.0.1"

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="callmesh-tls-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        arguments = [PROGRAMS / "webphone", "--tls", "--host", cls.host, "--port", "0", "--folder", "clients/web"]
        cls.webphone = Child("webphone", arguments, cls.folder).start()
        cls.addClassCleanup(cls.end)
        cls.page = until("the phone with TLS", cls.printed)

    @classmethod
    def printed(cls):
        found = re.search(rf"https://{re.escape(cls.host)}:\d+(?=/\?user=)", cls.webphone.last_words())
        return found and found.group()

    @classmethod
    def end(cls):
        # It ends its cluster.
        cls.webphone.process.terminate()
        cls.webphone.process.wait()

    def root(self, _user):
        return self.page

    def test_a_call(self):
        ann, bob = self.connected(video=True)
        for phone in (ann, bob):
            phone.grows("audio", "energy", "frames")
        self.assertTrue(ann.js("return isSecureContext"))
        ann.do("hang-up").sees("You hung up")
        bob.sees("Ann hung up")


@unittest.skipUnless(own_address(), "SKIPPED: this machine has no address but loopback")
class FromOtherMachines(WithTLS):
    """The page and the edges as other machines reach them."""

    host = own_address()
