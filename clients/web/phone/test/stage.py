"""What tests with a cluster of their own share: the cluster, and pages that know some or all of its edges."""

import pathlib
import shutil
import tempfile

from cluster import Cluster
from pages import Site
from phones import PhoneTest, at_close
from push_service import PushService
from relay import Relay

_shared = {}


class Stage:
    """A cluster and four sites. Pages of `both` know both edges; those of `first` and `second` know one.

    Pages of `far` reach the edges through relays that can break.
    """

    def __init__(self):
        self.both, self.first, self.second, self.far = self.sites = [Site() for _ in range(4)]
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="callmesh-push-"))
        self.push_service = PushService(self.folder)
        self.cluster = Cluster([site.origin for site in self.sites], self.push_service.providers)
        edges = self.cluster.edge_urls
        self.relays = [Relay(int(edge.rsplit(":", 1)[1])) for edge in edges]
        ways = (edges, edges[:1], edges[1:], [relay.url for relay in self.relays])
        for site, known in zip(self.sites, ways):
            site.serve(known, self.cluster.token, push={"publicKey": self.push_service.public_key})

    def close(self):
        self.cluster.close()
        for one in (*self.sites, *self.relays, self.push_service):
            one.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def stage():
    """The one stage of this run."""
    if "stage" not in _shared:
        _shared["stage"] = Stage()
        at_close(_shared["stage"].close)
    return _shared["stage"]


class StageTest(PhoneTest):
    """Phones at a cluster whose processes may be killed. Each test leaves all of them running."""

    # Chromium reports each attempt to reach an edge that is not there.
    expects_errors = r"WebSocket|ERR_CONNECTION_REFUSED|ERR_INTERNET_DISCONNECTED"

    def setUp(self):
        super().setUp()
        self.stage = stage()
        self.cluster = self.stage.cluster

    def root(self, _user):
        return self.stage.both.origin

    def killed(self, node):
        """Kills a node, and has it back at the end of the test."""
        node.kill()
        self.addCleanup(self.back, node)

    def back(self, node):
        if node.process.poll() is not None:
            node.restart()
