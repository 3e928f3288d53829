"""Calls through coturn alone: the browser may use no other way, and the edge has given it the credentials."""

import pathlib
import shutil
import tempfile
import unittest

import turn
from cluster import Cluster
from pages import Site
from phones import PhoneTest
from waiting import until

# The kinds of candidates at the two ends of the way in use.
WAY = """
const done = arguments[0];
const media = globalThis.callmeshPhone.line(callmeshPhone.device.calls[0]?.id)?.media;
if (!media?.connection) done(null);
else media.connection.getStats().then((stats) => {
  const pair = [...stats.values()].find((one) => one.type === "candidate-pair" && one.nominated && one.state === "succeeded");
  done(pair ? [stats.get(pair.localCandidateId).candidateType, stats.get(pair.remoteCandidateId).candidateType] : null);
});
"""


@unittest.skipUnless(turn.PROGRAM, "SKIPPED: there is no coturn (Debian: apt-get install coturn)")
class Relayed(PhoneTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="callmesh-turn-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.turn = turn.TurnServer(cls.folder).start()
        cls.addClassCleanup(cls.turn.stop)
        cls.turn.ready()
        cls.site = Site()
        cls.addClassCleanup(cls.site.close)
        options = ["--turn-urls", cls.turn.url, "--turn-secret-file", cls.turn.secret_file]
        cls.cluster = Cluster([cls.site.origin], edge_options=options)
        cls.addClassCleanup(cls.cluster.close)
        cls.site.serve(cls.cluster.edge_urls, cls.cluster.token, rtc={"iceTransportPolicy": "relay"})

    def root(self, _user):
        return self.site.origin

    def way(self, phone):
        return phone.driver.execute_async_script(WAY)

    def test_sound_and_pictures_through_coturn_alone(self):
        ann, bob = self.connected(video=True)
        for phone in (ann, bob):
            phone.grows("audio", "energy", "frames")
            self.assertEqual(until("a way", lambda: self.way(phone)), ["relay", "relay"])
        users = phone.js("return callmeshPhone.device.iceServers.map(({ username }) => username.split(':')[1])")
        self.assertEqual(users, ["bob"])

    def test_without_coturn_nothing_flows(self):
        ann, bob = self.connected()
        self.turn.kill()
        for phone in (ann, bob):
            until("the media to break", lambda: phone.js(
                "return callmeshPhone.line(callmeshPhone.device.calls[0].id).media.connection.connectionState"
            ) in ("disconnected", "failed"))  # fmt: skip
        self.turn.start().ready()
        for phone in (ann, bob):
            phone.grows("audio", "energy")
