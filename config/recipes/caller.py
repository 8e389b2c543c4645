"""Verifies the header Gatehouse-Caller. Needs PyJWT with cryptography (Debian: python3-jwt, python3-cryptography)."""

import json
import threading
import time
import urllib.request

import jwt

CLOCK_TOLERANCE_SECONDS = 10
REFETCH_SECONDS = 30
TIMEOUT_SECONDS = 5
REQUIRED = ["aud", "client_id", "exp", "iat", "iss", "level", "sub"]


class InvalidCaller(Exception):
    """The header is missing, forged, expired or for another server."""


class RemoteKeys:
    """The public keys of Gatehouse, by `kid`. Fetched again for an unknown one, at most every 30 s."""

    def __init__(self, issuer):
        self.url = f"{issuer}/oauth/jwks"
        self.keys = {}
        self.fetched_at = None
        self.lock = threading.Lock()

    def get(self, kid):
        if kid not in self.keys:
            with self.lock:
                if self.fetched_at is None or time.monotonic() - self.fetched_at > REFETCH_SECONDS:
                    self.fetch()
        return self.keys.get(kid)

    def fetch(self):
        with urllib.request.urlopen(self.url, timeout=TIMEOUT_SECONDS) as response:
            self.keys = keys_in(json.load(response))
        self.fetched_at = time.monotonic()


def keys_in(key_set):
    return {key.key_id: key.key for key in jwt.PyJWKSet.from_dict(key_set).keys}


class CallerVerifier:
    def __init__(self, issuer, audience, keys=None, now=time.time):
        """issuer: authUrl of Gatehouse. audience: url of this server, exactly as in the settings of Gatehouse."""
        self.issuer = issuer
        self.audience = audience
        self.keys = RemoteKeys(issuer) if keys is None else keys
        self.now = now

    def verify(self, header):
        """Returns the claims, of which sub, client_id and level are always there. Raises InvalidCaller."""
        try:
            return self.claims(header or "")
        except (jwt.PyJWTError, ValueError) as error:
            raise InvalidCaller(str(error)) from error

    def claims(self, header):
        protected = jwt.get_unverified_header(header)
        # An access token of Gatehouse has another type.
        if protected.get("typ") != "gatehouse-caller+jwt":
            raise InvalidCaller("the type is wrong")
        key = self.keys.get(protected.get("kid"))
        if key is None:
            raise InvalidCaller("the key is unknown")
        claims = jwt.decode(
            header,
            key,
            algorithms=["ES256"],
            audience=self.audience,
            issuer=self.issuer,
            options={"require": REQUIRED, "verify_exp": False, "verify_iat": False},
        )
        if claims["aud"] != self.audience:
            raise InvalidCaller("the header is also for other servers")
        if not self.now() < int(claims["exp"]) + CLOCK_TOLERANCE_SECONDS:
            raise InvalidCaller("the header has expired")
        return claims
