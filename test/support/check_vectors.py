"""Prints what config/recipes/caller.py says about each header of the test vectors: its claims, or null."""

import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True
vectors_path = Path(sys.argv[1])
sys.path.insert(0, str(vectors_path.parent))

from caller import CallerVerifier, InvalidCaller, keys_in  # noqa: E402

vectors = json.loads(vectors_path.read_text())
verifier = CallerVerifier(
    vectors["issuer"], vectors["audience"], keys=keys_in(vectors["keys"]), now=lambda: vectors["now"]
)


def outcome(header):
    try:
        return verifier.verify(header)
    except InvalidCaller:
        return None


json.dump([outcome(vector["header"]) for vector in vectors["headers"]], sys.stdout)
