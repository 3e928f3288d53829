"""coturn, as an operator runs it, on loopback."""

import base64
import hmac
import secrets
import shutil
import socket
import time

from cluster import Child, free_ports
from waiting import until

PROGRAM = shutil.which("turnserver")


class TurnServer(Child):
    """Whoever has credentials that its secret made may use it. It asks nobody else."""

    def __init__(self, folder):
        self.port = free_ports(1)[0]
        self.secret_file = folder / "turn-secret"
        self.secret = secret = secrets.token_hex(24)
        self.secret_file.write_text(secret + "\n")
        arguments = [
            PROGRAM, "-n", "--no-cli", "--no-tls", "--no-dtls", "--listening-ip", "127.0.0.1", "--listening-port", self.port,
            "--relay-ip", "127.0.0.1", "--allow-loopback-peers", "--use-auth-secret", "--static-auth-secret", secret,
            "--realm", "callmesh.test", "--pidfile", folder / "turnserver.pid", "--log-file", "stdout", "--simple-log",
        ]  # fmt: skip
        super().__init__("turnserver", arguments, folder)

    @property
    def url(self):
        return f"turn:127.0.0.1:{self.port}?transport=udp"

    def server(self, transport, port=None):
        """Its entry among the `iceServers` of a page that brings its own: what an edge would give. `port`: of a way to it."""
        user = f"{int(time.time()) + 3600}:test"
        digest = hmac.digest(self.secret.encode(), user.encode(), "sha1")
        url = f"turn:127.0.0.1:{port or self.port}?transport={transport}"
        return {"urls": [url], "username": user, "credential": base64.b64encode(digest).decode()}

    def ready(self):
        until("turnserver to listen", self.listens)
        return self

    def listens(self):
        if self.process.poll() is not None:
            raise AssertionError(f"turnserver has ended:\n{self.last_words()}")
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
            return True
        except OSError:
            return False
