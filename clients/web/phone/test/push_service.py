"""A push service for browsers, as strict as a real one about who sends (RFC 8292) and what (RFC 8188, 8291)."""

import base64
import datetime
import http.server
import ipaddress
import json
import os
import queue
import ssl
import struct
import threading
import time

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import NameOID


def text_of(octets):
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


def octets_of(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def point_of(key):
    """The public half, as browsers give it."""
    form = (serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
    return key.public_key().public_bytes(*form)


def write_key(key, path):
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(key.private_bytes(*form))


class Subscription:
    """What a browser keeps of a subscription, and what it gives to the page."""

    def __init__(self, endpoint):
        self.key, self.secret = ec.generate_private_key(ec.SECP256R1()), os.urandom(16)
        keys = {"p256dh": text_of(point_of(self.key)), "auth": text_of(self.secret)}
        self.json = {"endpoint": endpoint, "expirationTime": None, "keys": keys}
        self.pushes = queue.Queue()

    def opened(self, body):
        salt, _, length = struct.unpack("!16sIB", body[:21])
        sender, sealed = body[21 : 21 + length], body[21 + length :]
        peer = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender)
        shared = self.key.exchange(ec.ECDH(), peer)

        def derived(length, salt, info, material):
            return HKDF(algorithm=hashes.SHA256(), length=length, salt=salt, info=info).derive(material)

        material = derived(32, self.secret, b"WebPush: info\0" + point_of(self.key) + sender, shared)
        key = derived(16, salt, b"Content-Encoding: aes128gcm\0", material)
        nonce = derived(12, salt, b"Content-Encoding: nonce\0", material)
        return json.loads(AESGCM(key).decrypt(nonce, sealed, None).rstrip(b"\0").removesuffix(b"\x02"))


class PushService:
    """Listens with a certificate of its own. `providers` is the file for push gateways that may send to it."""

    def __init__(self, folder):
        self.vapid = ec.generate_private_key(ec.SECP256R1())
        self.subscriptions, self.violations = [], []
        certificate, key = folder / "push-service.pem", folder / "push-service-key.pem"
        _make_certificate(certificate, key)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.origin = f"https://localhost:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        write_key(self.vapid, folder / "vapid.pem")
        browsers = {
            "name": "browsers", "keyFile": "vapid.pem", "subject": "mailto:push@example.org", "caFile": certificate.name,
            "furtherHosts": [self.origin.removeprefix("https://")], "allowsPrivateAddresses": True,
        }  # fmt: skip
        self.providers = folder / "providers.json"
        self.providers.write_text(json.dumps({"webPush": [browsers]}))

    @property
    def public_point(self):
        return point_of(self.vapid)

    @property
    def public_key(self):
        return text_of(self.public_point)

    def subscribe(self):
        self.subscriptions.append(Subscription(f"{self.origin}/push/{len(self.subscriptions)}"))
        return self.subscriptions[-1]

    def take(self, path, headers, body):
        """Keeps a push for its subscription. Returns the status of the answer."""
        try:
            subscription = self.subscriptions[int(path.removeprefix("/push/"))]
            self._check_sender(headers["authorization"])
            assert headers["content-encoding"] == "aes128gcm" and int(headers["ttl"]) >= 0, dict(headers)
            subscription.pushes.put(subscription.opened(body))
            return 201
        except Exception as error:  # Whatever it is, the test is to fail with it.
            self.violations.append(repr(error))
            return 400

    def _check_sender(self, authorization):
        scheme, parameters = authorization.split(" ", 1)
        parts = dict(part.strip().split("=", 1) for part in parameters.split(","))
        assert scheme == "vapid" and parts["k"] == self.public_key, authorization
        signed, signature = parts["t"].rsplit(".", 1)
        numbers = octets_of(signature)
        der = utils.encode_dss_signature(int.from_bytes(numbers[:32], "big"), int.from_bytes(numbers[32:], "big"))
        self.vapid.public_key().verify(der, signed.encode(), ec.ECDSA(hashes.SHA256()))
        claims = json.loads(octets_of(signed.split(".")[1]))
        assert claims["aud"] == self.origin and 0 < claims["exp"] - time.time() <= 86_400, claims

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def _handler(service):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(service.take(self.path, self.headers, body))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    return Handler


def _make_certificate(path, key_path):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    write_key(key, key_path)
