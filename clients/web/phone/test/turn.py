"""coturn, as an operator runs it, on loopback."""

import secrets
import shutil
import socket

from cluster import Child, free_ports
from waiting import until

PROGRAM = shutil.which("turnserver")


class TurnServer(Child):
    """Whoever has credentials that its secret made may use it. It asks nobody else."""

    def __init__(self, folder):
        self.port = free_ports(1)[0]
        self.secret_file = folder / "turn-secret"
        secret = secrets.token_hex(24)
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
