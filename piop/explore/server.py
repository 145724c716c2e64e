"""The server of the page, on this machine alone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import time
import webbrowser
from collections.abc import Callable
from importlib.resources import files
from typing import Any, final

from piop import web
from piop.errors import PiopError, UsageError
from piop.explore.limits import MESSAGES_PER_SECOND, SOCKETS, UPLOAD_BYTES
from piop.extras import require_extra

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
"""Names by which a browser may call the server; others point to it by DNS rebinding."""
PACKAGES = ("starlette", "uvicorn", "websockets")

logger = logging.getLogger(__name__)

HEADERS = [
    (b"content-security-policy", b"default-src 'none'; script-src 'self'; style-src 'self'; "
     b"img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
     b"frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]  # fmt: skip


def listen(port: int | None) -> socket.socket:
    """Open the socket that the page is served on.

    Args:
        port: Its port; None for a free one.

    Raises:
        UsageError: If the port cannot be used.
    """
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((HOST, port or 0))
        found.listen(128)
    except OSError as error:
        found.close()
        raise UsageError(
            f"--port: {port} cannot be used ({error.strerror}); give another one, or leave it out "
            "for a free one"
        ) from None
    return found


@final
class Guard:
    """Refuses requests that do not come from the page itself.

    A browser tells by which name it called the server (Host) and which page asks (Origin). Another
    site that made its own name point to 127.0.0.1 gives its name away by the first; one that opens
    a socket to this server, by the second.

    Args:
        app: The application behind it.
        port: Of the server.
    """

    def __init__(self, app: Any, port: int) -> None:
        self.app = app
        self.hosts = {f"{name}:{port}".encode() for name in NAMES}
        self.origins = {b"http://" + host for host in self.hosts}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        given: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            given.setdefault(name, []).append(value)
        hosts, origins = given.get(b"host", []), given.get(b"origin", [])
        good = len(hosts) == 1 and hosts[0] in self.hosts
        if scope["type"] == "websocket":
            good = good and len(origins) == 1 and origins[0] in self.origins
            if not good:
                await receive()
                await send({"type": "websocket.close", "code": 1008})
                return
        elif not good or any(origin not in self.origins for origin in origins):
            start = {"type": "http.response.start", "status": 403, "headers": HEADERS}
            await send(start)
            await send({"type": "http.response.body", "body": b"refused: not asked by this page"})
            return

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        await self.app(scope, receive, with_headers)


def assets() -> dict[str, tuple[str, str]]:
    """Return the path of each file of the page, with its content and type."""
    folder = files("piop.explore").joinpath("assets")
    own = {name: folder.joinpath(name).read_text("utf-8") for name in ("index.html", "page.css")}
    scripts = {p.name: p.read_text("utf-8") for p in folder.iterdir() if p.name.endswith(".js")}
    return {
        "/": (own["index.html"], "text/html"),
        "/style.css": (web.style(), "text/css"),
        "/page.css": (own["page.css"], "text/css"),
        "/plots.js": (web.plots(), "text/javascript"),
        **{f"/{name}": (text, "text/javascript") for name, text in scripts.items()},
    }


def application(explored: Any, compute: Any, solver: Any, port: int, **settings: Any) -> Any:
    """Make the application.

    Args:
        explored: What is shown, an :class:`piop.explore.explored.Explored`.
        compute: Threads that compute.
        solver: Solves references; None where no solver covers the problem.
        port: Port that the page is called by.
        settings: Of each :class:`piop.explore.session.Session`.

    Returns:
        An ASGI application.
    """
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route, WebSocketRoute
    from starlette.websockets import WebSocket, WebSocketDisconnect

    from piop.explore.session import Session
    from piop.explore.upload import read_upload
    from piop.json_values import json_value

    hello = json.dumps({"type": "hello", **json_value(explored.describe())}, allow_nan=False)
    uploads = asyncio.Semaphore(1)
    connected: set[Any] = set()

    def route(path: str, content: str, kind: str) -> Route:
        async def respond(request: Request) -> Response:
            del request
            return Response(content, media_type=kind)

        return Route(path, respond)

    async def connect(page: WebSocket) -> None:
        await page.accept()
        if len(connected) >= SOCKETS:
            text = f"{SOCKETS} pages are connected already; close one"
            await page.send_text(json.dumps({"type": "error", "stage": "page", "message": text}))
            await page.close(1013)
            return
        connected.add(page)

        async def send(message: str | bytes) -> None:
            with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # the page has gone
                if isinstance(message, str):
                    await page.send_text(message)
                else:
                    await page.send_bytes(message)

        session = Session(explored, compute, solver, send, **settings)
        answering = asyncio.create_task(session.run())
        try:
            await page.send_text(hello)
            pace = Pace(MESSAGES_PER_SECOND)
            while (message := await page.receive())["type"] == "websocket.receive":
                await pace()
                if (text := message.get("text")) is not None:
                    await _tell(send, "message", session.take, text)
                    continue
                async with uploads:
                    await _tell(send, "upload", read_upload, explored.problem, message["bytes"])
        except (WebSocketDisconnect, RuntimeError):
            pass
        finally:
            connected.discard(page)
            answering.cancel()

    routes = [route(path, *content) for path, content in assets().items()]
    return Guard(Starlette(routes=[*routes, WebSocketRoute("/socket", connect)]), port)


@final
class Pace:
    """Delays messages that come faster than a number in a second.

    Args:
        most: The number.
    """

    def __init__(self, most: int) -> None:
        self.most, self.count, self.begun = most, 0, time.monotonic()

    async def __call__(self) -> None:
        """Wait until the next message may be read."""
        now = time.monotonic()
        if now - self.begun >= 1.0:
            self.count, self.begun = 0, now
        self.count += 1
        if self.count > self.most:
            await asyncio.sleep(max(0.0, self.begun + 1.0 - now))


async def _tell(send: Any, stage: str, function: Callable[..., Any], *arguments: Any) -> None:
    """Call a function in answer to a message; send what it returns, or why it failed."""
    try:
        found = function(*arguments)
        if stage == "upload":
            await send(json.dumps({"type": "uploaded", **found}))
    except PiopError as error:
        await send(json.dumps({"type": "error", "stage": stage, "message": str(error)}))
    except Exception as error:  # a file that a reader does not expect
        logger.exception("a message of the page failed")
        text = f"unexpected {type(error).__name__}: {error}. This is a bug in piop"
        await send(json.dumps({"type": "error", "stage": stage, "message": text}))


def serve(
    source: str,
    port: int | None = None,
    browser: bool = True,
    device: str | None = None,
    announce: Callable[[str, str], None] = lambda url, name: None,
) -> None:
    """Serve the page until Ctrl-C.

    Args:
        source: Run folder, or file or name of a spec.
        port: Port on 127.0.0.1; None for a free one.
        browser: Open it in the browser.
        device: Of the operator; by default the run's own.
        announce: Called with the address and the name of the problem once it can be opened.

    Raises:
        UsageError: If the extra is missing, the port is taken, or the source cannot be shown.
        SpecError: If it is no spec.
    """
    require_extra("explore", PACKAGES, "explore")
    from piop.explore.explored import Explored

    explored = Explored.open(source, device)
    listening = listen(port)
    with contextlib.closing(listening), contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(explored, listening, browser, announce))


def make_server(app: Any) -> Any:
    """Return the server of an application, with its limits: a :class:`uvicorn.Server`."""
    import uvicorn

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="websockets-sansio",
        ws_max_size=UPLOAD_BYTES,
        ws_max_queue=4,
        limit_concurrency=4 * SOCKETS,
        timeout_graceful_shutdown=1,
        server_header=False,
    )
    return uvicorn.Server(config)


async def _serve(
    explored: Any, listening: socket.socket, browser: bool, announce: Callable[[str, str], None]
) -> None:
    from piop.explore.compute import Compute
    from piop.explore.reference_solver import ReferenceSolver

    port = listening.getsockname()[1]
    compute, beginning, solver = Compute(), [], None
    beginning.append(asyncio.create_task(compute.thoroughly(explored.prepare)))
    if explored.problem.capabilities.solver:
        parameters = {} if explored.run is None else explored.run.inferred
        solver = ReferenceSolver(explored.source, explored.display, parameters)
        beginning.append(asyncio.create_task(solver.warm_up()))
    url = f"http://{HOST}:{port}/"
    server = make_server(application(explored, compute, solver, port))
    announce(url, explored.problem.name)
    if browser:
        await asyncio.to_thread(webbrowser.open, url)
    try:
        await server.serve(sockets=[listening])
    finally:
        for task in beginning:
            task.cancel()
        if solver is not None:
            await solver.close()
        compute.close()
