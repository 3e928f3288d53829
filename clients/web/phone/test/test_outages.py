"""Calls while parts of the cluster, or the network, go away: they ring on and go on, and their end is learned."""

import pathlib
import shutil
import tempfile
import unittest

import turn
from relay import Relay
from stage import StageTest
from waiting import until

# Media that stop for this long are interrupted.
PAUSE_MS_MAX = 2000
# Records what the page sees of its session and its media from now on.
WATCH = """
const { device } = callmeshPhone;
const seen = (globalThis.seen = { attached: 0, detached: 0, media: [], connection: null, pauses: {} });
device.on("attached", () => (seen.attached += 1));
device.on("detached", () => (seen.detached += 1));
const media = callmeshPhone.line(device.calls[0]?.id)?.media;
if (media) {
  seen.connection = media.connection;
  media.on("state", ({ state }) => seen.media.push(state));
  media.on("moved", () => seen.media.push("moved"));
  // The longest time in which no packet came, of sound and of pictures. A page that was slow to look saw no pause.
  const { connection } = media;
  const last = {};
  const timer = setInterval(async () => {
    if (connection.connectionState === "closed") return clearInterval(timer);
    for (const { type, kind, packetsReceived, timestamp } of (await connection.getStats()).values()) {
      if (type !== "inbound-rtp") continue;
      const before = last[kind];
      const pause = before?.packetsReceived === packetsReceived ? before.pause + timestamp - before.timestamp : 0;
      last[kind] = { packetsReceived, timestamp, pause };
      seen.pauses[kind] = Math.max(seen.pauses[kind] ?? 0, pause);
    }
  }, 250);
}
"""
# The call, and the name that ICE has for its way. Each restart gives another one.
SAME = """
const [{ id }] = callmeshPhone.device.calls;
const { sdp } = callmeshPhone.line(id).media.connection.localDescription;
return { call: id, ice: sdp.match(/a=ice-ufrag:(\\S+)/)[1] };
"""
IS_UNBROKEN = """
const media = callmeshPhone.line(callmeshPhone.device.calls[0]?.id)?.media;
return media?.connection === seen.connection && seen.media.length === 0 && seen.connection.connectionState === "connected"
"""


class OutageTest(StageTest):
    def watch(self, *phones):
        for phone in phones:
            phone.js(WATCH)

    def comes_back(self, phone):
        until(lambda: f"{phone.name} to attach again", lambda: phone.js("return seen.attached > 0"))
        phone.ready()

    def goes_away(self, phone):
        until(lambda: f"{phone.name} to notice", lambda: phone.js("return seen.detached > 0"))

    def talks_on(self, *phones):
        """The same connections as before carry sound and pictures, and never stopped."""
        for phone in phones:
            phone.grows("audio", "energy", "frames")
            self.assertTrue(phone.js(IS_UNBROKEN), f"media of {phone.name}: {phone.js('return seen.media')}")
            pauses = until("packets to be counted", lambda: len(found := phone.js("return seen.pauses")) == 2 and found)
            self.assertLess(max(pauses.values()), PAUSE_MS_MAX, f"media of {phone.name}: {pauses}")
            self.assertEqual(phone.state(), "connected")

    def ringing(self):
        ann, bob = self.phone("ann"), self.phone("bob")
        ann.call("Bob")
        bob.rings()
        ann.sees("Ringing on Bob's browser")
        self.watch(ann, bob)
        return ann, bob

    def answer(self, ann, bob):
        bob.do("answer")
        for phone in (ann, bob):
            phone.talks().grows("audio", "energy")
        ann.do("hang-up")
        bob.sees("Ann hung up")

    def talking(self):
        ann, bob = self.connected(video=True)
        self.watch(ann, bob)
        return ann, bob


class Edges(OutageTest):
    def test_the_callees_edge_is_killed_while_it_rings(self):
        ann, bob = self.ringing()
        self.killed(self.cluster.edge_of("bob"))
        self.comes_back(bob)
        self.answer(ann, bob.rings())

    def test_the_callers_edge_is_killed_while_it_rings(self):
        ann, bob = self.ringing()
        self.killed(self.cluster.edge_of("ann"))
        self.comes_back(ann)
        self.answer(ann, bob)

    def test_both_edges_are_killed_in_mid_call(self):
        ann, bob = self.talking()
        for edge in ("edge-1", "edge-2"):
            self.killed(self.cluster.nodes[edge])
        for phone in (ann, bob):
            self.goes_away(phone)
        self.talks_on(ann, bob)
        for edge in ("edge-1", "edge-2"):
            self.back(self.cluster.nodes[edge])
        for phone in (ann, bob):
            self.comes_back(phone)
        self.talks_on(ann, bob)
        bob.do("hang-up")
        ann.sees("Bob hung up")

    def test_a_drained_edge_hands_its_devices_over(self):
        ann, bob = self.talking()
        edge = self.cluster.edge_of("bob")
        self.addCleanup(self.cluster.ctl, "resume", edge.name)
        self.cluster.ctl("drain", edge.name, "--wait")
        self.comes_back(bob)
        self.assertNotEqual(self.cluster.edge_of("bob"), edge)
        self.assertNotEqual(self.cluster.edge_of("ann"), edge)
        self.talks_on(ann, bob)
        ann.do("hang-up")
        bob.sees("Ann hung up")
        ann.call("Bob")
        self.watch(ann, bob.rings())
        self.answer(ann, bob)


class OneEdgeEach(OutageTest):
    """Ann knows the first edge only, and Bob the second one."""

    def root(self, user):
        return (self.stage.first if user == "ann" else self.stage.second).origin

    def test_a_hang_up_is_learned_after_the_edge_is_back(self):
        ann, bob = self.talking()
        self.killed(self.cluster.nodes["edge-2"])
        self.goes_away(bob)
        self.talks_on(ann, bob)
        ann.do("hang-up").sees("You hung up")
        self.back(self.cluster.nodes["edge-2"])
        self.comes_back(bob)
        bob.sees("Ann hung up")

    def test_a_cancel_is_learned_after_the_edge_is_back(self):
        ann, bob = self.ringing()
        self.killed(self.cluster.nodes["edge-2"])
        self.goes_away(bob)
        ann.do("hang-up").sees("You gave up before an answer")
        self.back(self.cluster.nodes["edge-2"])
        bob.sees("Ann gave up").sees_not(".card.ringing")


class Coordinators(OutageTest):
    def owner(self, phone):
        return self.cluster.owner_of(phone.js("return callmeshPhone.device.calls[0].id"))

    def test_the_coordinator_is_killed_while_it_rings(self):
        ann, bob = self.ringing()
        self.killed(self.owner(ann))
        self.answer(ann, bob.rings())

    def test_the_coordinator_is_killed_in_mid_call(self):
        ann, bob = self.talking()
        self.killed(self.owner(ann))
        phase = "return callmeshPhone.device.calls[0].query().then(({ call }) => call.phase)"
        until("another coordinator to have the call", lambda: ann.js(phase) == "answered")
        self.talks_on(ann, bob)
        ann.do("hang-up").sees("You hung up")
        bob.sees("Ann hung up")


class OfflineTest(OutageTest):
    """Bob's browser loses its network without a word."""

    def root(self, user):
        return (self.stage.far if user == "bob" else self.stage.both).origin

    def offline(self, phone):
        # Chromium refuses new connections then, and leaves those that it has.
        phone.network(True)
        self.addCleanup(phone.network, False)
        for relay in self.stage.relays:
            relay.lose()
        phone.js("seen.lostAt = performance.now()")
        away = "return seen.detached > 0 && performance.now() - seen.lostAt >= 20_000"
        until(lambda: f"{phone.name} to be away for 20 s", lambda: phone.js(away))
        self.assertNotEqual(phone.js("return callmeshPhone.device.state"), "attached")


class Offline(OfflineTest):
    """Media between two browsers of one machine pass all the same."""

    def test_in_mid_call(self):
        ann, bob = self.talking()
        self.offline(bob)
        self.talks_on(ann, bob)
        bob.network(False)
        self.comes_back(bob)
        self.talks_on(ann, bob)
        ann.do("hang-up").sees("You hung up")
        bob.sees("Ann hung up")

    def test_a_call_that_rang_meanwhile(self):
        ann, bob = self.phone("ann", ring=60), self.phone("bob")
        self.watch(ann, bob)
        self.offline(bob)
        ann.call("Bob")
        bob.network(False)
        self.comes_back(bob)
        self.answer(ann, bob.rings())


@unittest.skipUnless(turn.PROGRAM, "SKIPPED: there is no coturn (Debian: apt-get install coturn)")
class OfflineWithMedia(OfflineTest):
    """Media go through coturn alone, and Bob's way to it is lost with his way to the edges."""

    def setUp(self):
        super().setUp()
        folder = pathlib.Path(tempfile.mkdtemp(prefix="callmesh-turn-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        server = turn.TurnServer(folder).start()
        self.addCleanup(server.stop)
        server.ready()
        self.way = Relay(server.port)
        self.addCleanup(self.way.close)
        self.serve(self.stage.both, server.server("udp"))
        self.serve(self.stage.far, server.server("tcp", self.way.port))

    def serve(self, site, server):
        """Gives pages of this site no other way for media."""
        self.addCleanup(site.settings.pop, "rtc")
        site.settings["rtc"] = {"iceTransportPolicy": "relay", "iceServers": [server]}

    def test_sound_and_pictures_come_back_in_the_same_call(self):
        ann, bob = self.connected(video=True)
        self.watch(ann, bob)
        before = {phone: phone.js(SAME) for phone in (ann, bob)}
        self.way.cut()
        self.offline(bob)
        for phone in (ann, bob):
            phone.sees("The connection is interrupted. Looking for another way…")
        self.way.mend()
        bob.network(False)
        self.comes_back(bob)
        for phone in (ann, bob):
            phone.grows("audio", "energy", "frames").sees("In a call").plays(video=True)
            self.assertGreater(phone.js("return seen.pauses.audio"), PAUSE_MS_MAX)
            after = phone.js(SAME)
            self.assertEqual(after["call"], before[phone]["call"])
            self.assertNotEqual(after["ice"], before[phone]["ice"])
            self.assertTrue(phone.js("return callmeshPhone.line(callmeshPhone.device.calls[0].id).media.connection === seen.connection"))
        bob.do("hang-up").sees("You hung up")
        ann.sees("Bob hung up")
