"""The page's server for tests with a cluster of their own: the files of clients/web, and what the page asks for."""

import functools
import http.server
import json
import pathlib
import threading
import urllib.parse

WEB = pathlib.Path(__file__).resolve().parents[2]


POLICY = (
    "default-src 'self'; connect-src 'self' {edges}; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


class Handler(http.server.SimpleHTTPRequestHandler):
    # Proper names beat what the system's table says of them.
    extensions_map = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}

    def do_GET(self):
        address = urllib.parse.urlsplit(self.path)
        if address.path == "/development/settings":
            return self.answer(self.server.settings)
        if address.path == "/development/token":
            user = urllib.parse.parse_qs(address.query)["user"][0]
            return self.answer({"token": self.server.token(user)})
        return super().do_GET()

    def end_headers(self):
        # As `make phone` serves it, and as any server should: README.md has it.
        if self.path.startswith("/phone/"):
            edges = " ".join(f"{one} {one.replace('http', 'ws', 1)}" for one in self.server.settings.get("edges", []))
            self.send_header("Content-Security-Policy", POLICY.format(edges=edges))
        super().end_headers()

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Site(http.server.ThreadingHTTPServer):
    """Listens at once. Pages get `settings` once the test has set them."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), functools.partial(Handler, directory=str(WEB)))
        self.settings, self.token = {}, None
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def origin(self):
        return f"http://localhost:{self.server_port}"

    def serve(self, edges, token, **more):
        contacts = [{"user": user, "name": user.capitalize()} for user in ("ann", "bob", "carl", "dora")]
        self.settings = {"edges": edges, "contacts": contacts, **more}
        self.token = token

    def close(self):
        self.shutdown()
        self.server_close()
