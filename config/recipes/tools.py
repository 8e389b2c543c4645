"""A minimal MCP server, Streamable HTTP without sessions. It needs only the standard library of Python 3."""

import hmac
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HOST = os.environ.get("TOOLS_HOST", "127.0.0.1")
PORT = int(os.environ.get("TOOLS_PORT", "9000"))
# What Gatehouse sends as the header Authorization, see "Credentials" in the settings. Without it, everybody who reaches the server may call it.
CREDENTIAL_FILE = os.environ.get("TOOLS_CREDENTIAL_FILE")
CREDENTIAL = Path(CREDENTIAL_FILE).read_text().strip() if CREDENTIAL_FILE else None
# The authUrl of Gatehouse. With it, only Gatehouse can call, and the server knows for whom.
ISSUER = os.environ.get("TOOLS_ISSUER")
# The address of this server, exactly as in the settings of Gatehouse.
URL = os.environ.get("TOOLS_URL", f"http://{HOST}:{PORT}/mcp")

if ISSUER:
    from caller import CallerVerifier, InvalidCaller

    VERIFIER = CallerVerifier(ISSUER, URL)

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
MAX_BODY_BYTES = 1_000_000

ORDERS = ["1001: two bicycles", "1002: one bell"]


def list_orders(arguments, caller):
    return "\n".join(ORDERS)


def add_order(arguments, caller):
    ORDERS.append(f"{1001 + len(ORDERS)}: {arguments['what']}")
    return ORDERS[-1]


def whoami(arguments, caller):
    return json.dumps(caller)


TOOLS = {
    "list_orders": {
        "call": list_orders,
        "title": "List orders",
        "description": "Lists all orders.",
        "inputSchema": {"type": "object", "properties": {}},
        # `toolLevels: annotations` opens this tool at the lowest level.
        "annotations": {"readOnlyHint": True},
    },
    "add_order": {
        "call": add_order,
        "title": "Add an order",
        "description": "Adds an order.",
        "inputSchema": {
            "type": "object",
            "properties": {"what": {"type": "string"}},
            "required": ["what"],
        },
        "annotations": {"readOnlyHint": False, "destructiveHint": False},
    },
    **(
        {
            "whoami": {
                "call": whoami,
                "title": "Who am I?",
                "description": "Says who is calling.",
                "inputSchema": {"type": "object", "properties": {}},
                "annotations": {"readOnlyHint": True},
            }
        }
        if ISSUER
        else {}
    ),
}


class InvalidParams(Exception):
    pass


def answer(method, params, caller):
    """Returns the result of a request, or None if there is no such method."""
    if method == "initialize":
        asked = params.get("protocolVersion")
        return {
            "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "orders", "version": "1.0.0"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        hidden = ("call",)
        return {
            "tools": [
                {"name": name, **{key: value for key, value in tool.items() if key not in hidden}}
                for name, tool in TOOLS.items()
            ]
        }
    if method == "tools/call":
        tool = TOOLS.get(params.get("name"))
        if tool is None:
            raise InvalidParams("there is no such tool")
        try:
            text, is_error = tool["call"](params.get("arguments") or {}, caller), False
        except (KeyError, TypeError, ValueError) as error:
            text, is_error = f"wrong arguments: {error}", True
        return {"content": [{"type": "text", "text": text}], "isError": is_error}
    return None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length = int(self.headers.get("Content-Length", -1))
        if not 0 <= length <= MAX_BODY_BYTES:
            self.close_connection = True
            return self.reply(413)
        body = self.rfile.read(length)
        if "Origin" in self.headers:  # a web page in a browser; Gatehouse sends none
            return self.reply(403)
        if not self.is_gatehouse():
            return self.reply(401)
        try:
            caller = VERIFIER.verify(self.headers.get("Gatehouse-Caller")) if ISSUER else None
        except InvalidCaller:
            return self.reply(401)
        except OSError:  # the keys could not be fetched
            return self.reply(503)
        if self.path != "/mcp":
            return self.reply(404)
        try:
            message = json.loads(body)
            request_id, method = message.get("id"), message.get("method")
            params = message.get("params") or {}
            if not isinstance(params, dict):
                return self.reply(400)
        except (ValueError, AttributeError):
            return self.reply(400)
        if request_id is None:  # a notification
            return self.reply(202)
        try:
            result = answer(method, params, caller)
            error = None if result is not None else {"code": -32601, "message": "Method not found"}
        except InvalidParams as invalid:
            result, error = None, {"code": -32602, "message": str(invalid)}
        outcome = {"error": error} if error else {"result": result}
        return self.reply(200, {"jsonrpc": "2.0", "id": request_id, **outcome})

    def do_GET(self):
        self.reply(405)  # it sends no messages of its own

    def is_gatehouse(self):
        given = self.headers.get("Authorization", "")
        return CREDENTIAL is None or hmac.compare_digest(given.encode(), CREDENTIAL.encode())

    def reply(self, status, body=None):
        content = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format, *args):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer((HOST, PORT), Handler).serve_forever()
