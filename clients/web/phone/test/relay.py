"""A way to a port that can break without a word: what is under way is lost, and nobody is told."""

import socket
import threading


class Relay:
    def __init__(self, target):
        self.target = target
        self.connections = []
        self.is_cut = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self):
        return self.listener.getsockname()[1]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def lose(self):
        """The connections of now are dead, and look alive from both ends. Later ones work."""
        for connection in self.connections:
            connection.is_dead = True

    def cut(self):
        """As `lose`, and so it is with those that come before `mend`."""
        self.is_cut = True
        self.lose()

    def mend(self):
        self.is_cut = False

    def close(self):
        self.listener.close()
        for connection in self.connections:
            connection.close()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            self.connections.append(Connection(near, far, self.is_cut))


class Connection:
    def __init__(self, near, far, is_dead):
        self.ends = (near, far)
        self.is_dead = is_dead
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source, sink):
        try:
            while data := source.recv(65_536):
                if not self.is_dead:
                    sink.sendall(data)
        except OSError:
            pass
        # A side that is cut off does not learn of an end, either.
        if not self.is_dead:
            self.close()

    def close(self):
        for end in self.ends:
            end.close()
