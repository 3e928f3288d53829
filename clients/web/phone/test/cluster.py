"""A cluster of processes on loopback that tests may kill: nats-server, two coordinators, two edges, a push gateway."""

import base64
import hashlib
import hmac
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from waiting import until

APP = "phone"
# Where callnode and callctl are: beside webphone, which run.sh was given.
PROGRAMS = pathlib.Path(os.environ.get("PROGRAMS", ".build/release"))


def free_ports(count):
    """Ports that nobody listens on now, below those that the system gives to connections: one of them could take it."""
    ports = []
    while len(ports) < count:
        port = random.randrange(12_000, 32_000)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports


class Child:
    """A process that can be killed and started again with the same arguments."""

    def __init__(self, name, arguments, folder):
        self.name, self.arguments, self.log = name, [str(argument) for argument in arguments], folder / f"{name}.log"
        self.process = None

    def start(self):
        # Whatever becomes of the tests, it ends with them.
        command = ["setpriv", "--pdeathsig", "KILL", *self.arguments]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        return self

    def kill(self):
        """Ends it without a word to anybody, as a power cut does."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        # Nothing of it is needed any more, so it need not take leave.
        if self.process and self.process.poll() is None:
            self.kill()

    def last_words(self):
        return self.log.read_text(errors="replace")[-2000:]


class Node(Child):
    """A callnode, with the port at which it says whether it is ready."""

    def __init__(self, role, number, cluster, *options):
        self.metrics = free_ports(1)[0]
        common = [
            "--nats-url", cluster.nats_url, "--keys-file", cluster.keys_file, "--node-id", f"{role}-{number}",
            "--metrics-port", self.metrics, "--log-format", "text",
            # The same few people call each other again and again.
            "--calls-per-pair-per-minute", 1000,
        ]  # fmt: skip
        super().__init__(f"{role}-{number}", [PROGRAMS / "callnode", role, *common, *options], cluster.folder)

    def is_ready(self):
        if self.process.poll() is not None:
            raise AssertionError(f"{self.name} has ended:\n{self.last_words()}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/readyz", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def ready(self):
        until(f"{self.name} to be ready", self.is_ready)
        return self

    def restart(self):
        return self.start().ready()


class Cluster:
    """All processes, and tokens for any user."""

    def __init__(self, origins, providers=None, edge_options=()):
        """`origins`: of the pages; `providers`: the file of push providers, with which there is a gateway."""
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="callmesh-cluster-"))
        self.keys_file = self.folder / "keys.json"
        self.children = []
        nats_port, *edge_ports = free_ports(3)
        self.nats_url = f"nats://127.0.0.1:{nats_port}"
        self.edge_urls = [f"http://127.0.0.1:{port}" for port in edge_ports]
        self.secret = self._make_keys()
        self._start(Child("nats", self._nats(nats_port), self.folder))
        nodes = [Node("coordinator", number, self, "--shard-count", 16) for number in (1, 2)]
        shared = ["--allowed-origins", ",".join(origins), "--drain-seconds", "5", *edge_options]
        nodes += [Node("edge", at + 1, self, "--port", port, *shared) for at, port in enumerate(edge_ports)]
        if providers:
            nodes.append(Node("push", 1, self, "--push-providers", providers))
        self.nodes = {node.name: self._start(node) for node in nodes}
        for node in nodes:
            node.ready()

    def _start(self, child):
        self.children.append(child.start())
        return child

    def _nats(self, port):
        path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/bin"
        store = self.folder / "store"
        return [shutil.which("nats-server", path=path), "-a", "127.0.0.1", "-p", port, "-js", "-sd", store]

    def _make_keys(self):
        subprocess.run(
            [PROGRAMS / "callctl", "keys", "--app", APP, "--keys-file", self.keys_file], check=True, capture_output=True
        )
        keys = json.loads(self.keys_file.read_text())
        app = keys["apps"][0]
        app["history"] = app["ongoingCalls"] = True
        self.keys_file.write_text(json.dumps(keys))
        self.kid = app["keys"][0].get("kid")
        return base64.b64decode(app["keys"][0]["secret"])

    def token(self, user):
        """What the app's server would give its user."""

        def part(value):
            return base64.urlsafe_b64encode(value).rstrip(b"=")

        now = int(time.time())
        claims = {"app": APP, "sub": user, "name": user.capitalize(), "iat": now, "exp": now + 3600}
        text = b".".join(part(json.dumps(one).encode()) for one in ({"alg": "HS256", "kid": self.kid}, claims))
        return (text + b"." + part(hmac.digest(self.secret, text, hashlib.sha256))).decode()

    # Actions of operators.

    def ctl(self, *arguments):
        words = [PROGRAMS / "callctl", *arguments, "--nats-url", self.nats_url]
        result = subprocess.run(words, capture_output=True, text=True, check=False)
        if result.returncode:
            raise AssertionError(f"callctl {' '.join(arguments)}: {result.stdout}{result.stderr}")
        return result.stdout

    def edge_of(self, user):
        """The edge at which the user's only session is."""

        def found():
            devices = json.loads(self.ctl("user", APP, user, "--json"))["devices"]
            sessions = [device["session"] for device in devices if device.get("session")]
            # A session begins with the number that its edge drew at the start.
            return len(sessions) == 1 and self._edges().get(sessions[0].split("-")[0])

        return until(f"one session of {user}", found)

    def _edges(self):
        states = [node["status"] for node in json.loads(self.ctl("status", "--json", "--once"))["nodes"]]
        return {f"{state['edge']['incarnation']:x}": self.nodes[state["node"]] for state in states if state.get("edge")}

    def owner_of(self, call):
        """The coordinator that decides about a call."""
        return self.nodes[json.loads(self.ctl("call", call, "--json"))["call"]["node"]]

    def close(self):
        for child in self.children:
            child.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
