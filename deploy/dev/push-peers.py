#!/usr/bin/env python3
"""Judges what the push senders make with libraries of others (pip install http_ece google-auth).

Reads one JSON object: {"decrypt": {"body", "key", "auth"}} prints the text of a Web Push;
{"verify": {"token", "pem", "audience"}} prints the claims of a signed token.
"""
import base64
import json
import sys


def octets(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def decrypt(body, key, auth):
    import http_ece
    from cryptography.hazmat.primitives.asymmetric import ec

    private = ec.derive_private_key(int.from_bytes(octets(key), "big"), ec.SECP256R1())
    return http_ece.decrypt(
        octets(body), private_key=private, auth_secret=octets(auth), version="aes128gcm"
    ).decode()


def verify(token, pem, audience):
    from cryptography.hazmat.primitives import serialization
    from google.auth import jwt

    public = serialization.load_pem_private_key(pem.encode(), None).public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return json.dumps(jwt.decode(token, certs=public, audience=audience), sort_keys=True)


request = json.load(sys.stdin)
if "decrypt" in request:
    sys.stdout.write(decrypt(**request["decrypt"]))
else:
    sys.stdout.write(verify(**request["verify"]))
