"""Who may ask: browsers of this machine that know the token, from this page. Every answer carries the strict headers."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Scripts and styles are files of the package; nothing is taken from elsewhere, and no text becomes markup.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}
SAFE_METHODS = ("GET", "HEAD")


class Guard:
    """Lets a request through to the page, its token taken off the path, or refuses it with a sentence."""

    def __init__(self, app: ASGIApp, *, token: str, port: int):
        self.app = app
        self.token = token.encode()
        self.hosts = (f"127.0.0.1:{port}", f"localhost:{port}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        _, _, rest = scope["path"].partition("/")
        token, _, path = rest.partition("/")
        refusal = self.refusal(scope["method"], Headers(scope=scope), token, path)
        if refusal is not None:
            status, sentence = refusal
            await PlainTextResponse(sentence, status)(scope, receive, send_guarded)
            return
        inner = {**scope, "path": f"/{path}", "raw_path": f"/{path}".encode()}
        await self.app(inner, receive, send_guarded)

    def refusal(
        self, method: str, headers: Mapping[str, str], token: str, path: str
    ) -> tuple[int, str] | None:
        """Why a request is refused, with its status; None for one that may pass."""
        host = headers.get("host", "")
        # A foreign name that leads to this machine (DNS rebinding) comes with its own host.
        if host not in self.hosts:
            return 403, "This page answers to 127.0.0.1 alone."
        if not secrets.compare_digest(token.encode(), self.token):
            return 404, "Nothing is here. Use the whole address that `groupshift serve` printed."
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if method not in SAFE_METHODS and origin != f"http://{host}":
            return 403, "Only this page itself may change something here."
        if site in (None, "none", "same-origin"):
            return None
        # The address may be followed from elsewhere to the first page, as from a terminal or a note.
        is_visit = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        if method == "GET" and is_visit and path == "":
            return None
        return 403, "Another site asked for this. Open the page by its own address."
