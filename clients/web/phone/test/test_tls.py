"""The phone as other machines have it: page and edges with TLS."""

import pathlib
import re
import shutil
import tempfile

from cluster import PROGRAMS, Child
from phones import PhoneTest
from waiting import until


class WithTLS(PhoneTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="callmesh-tls-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        # Only loopback, so that nobody else reaches it while it is tested.
        arguments = [PROGRAMS / "webphone", "--tls", "--host", "127.0.0.1", "--port", "0", "--folder", "clients/web"]
        cls.webphone = Child("webphone", arguments, cls.folder).start()
        cls.addClassCleanup(cls.end)
        cls.page = until("the phone with TLS", cls.printed)

    @classmethod
    def printed(cls):
        found = re.search(r"https://127.0.0.1:\d+(?=/\?user=)", cls.webphone.last_words())
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
