"""The page's addresses: what a browser may ask for, and what happens then."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from groupshift.serve.guard import Guard, in_time, received
from groupshift.serve.jobs import (
    KNOWN,
    NOT_HERE,
    REPORT,
    SLOTS,
    TASK_NAMES,
    UNREADABLE,
    Job,
    JobsFolder,
    Refused,
    Settings,
    checked_text,
    known_shares_file,
    main_arguments,
    safe_name,
    usual_roles,
)
from groupshift.serve.pages import DOWNLOADS, JobView, templates
from groupshift.serve.work_queue import WorkQueue
from groupshift.tables.files import write_whole

STATIC = Path(__file__).parent / "static"
# By its path: importing the report would bring scikit-learn, which the page's process does without.
REPORT_STYLE = Path(__file__).parents[1] / "_diagnosis" / "report" / "report.css"
# Settings of ten thousand columns fit.
MOST_SETTINGS = 4 * 1024**2
SETTLED = "This job is under way or done, and stays as it is. Stop it first, or begin another one."
FAULT = (
    "This should not have happened, and the page goes on. Load it again; what `groupshift serve` wrote in its terminal "
    "says more."
)


@dataclass(frozen=True)
class Page:
    """The requests of the page, by what they ask for."""

    folder: JobsFolder
    queue: WorkQueue
    root: str
    most_upload: int

    async def home(self, request: Request) -> Response:
        return self._html("home.html", jobs=[JobView(self.folder, job) for job in self.folder.all()])

    async def new_job(self, request: Request) -> Response:
        return JSONResponse({"id": self.folder.new("fit").id}, 201)

    async def job(self, request: Request) -> Response:
        view = self._view(request)
        return self._html(f"{view.screen}.html", view=view, job=view.job, parent=self._parent(view.job))

    async def state(self, request: Request) -> Response:
        view = self._view(request)
        task = request.query_params.get("task") or view.open_task or view.job.kind
        if task not in TASK_NAMES:
            raise Refused(404, NOT_HERE)
        return JSONResponse(view.progress(task) | {"screen": view.screen})

    async def columns(self, request: Request) -> Response:
        return JSONResponse(self._view(request).columns())

    async def shares(self, request: Request) -> Response:
        return FileResponse(self._there(self._view(request).home / "shares.json"))

    async def put_file(self, request: Request) -> Response:
        """A dropped file: its body as it is, its name only looked at."""
        job, slot = self._idle_job(request), request.path_params["slot"]
        if slot not in SLOTS:
            raise Refused(404, NOT_HERE)
        # Bytes that are no text become what `checked_text` refuses; Starlette would replace them.
        asked = parse_qs(request.url.query, errors="surrogateescape")
        wanted = checked_text(asked.get("name", ["file"])[0])
        files = self.folder.files(job.id)
        async with received(request, files, most=self.most_upload) as part:
            # Other requests were answered meanwhile. From here on none is: nothing begins to read the file that goes.
            job = self._idle_job(request)
            name = safe_name(wanted, tuple(name for other, name in job.files.items() if other != slot))
            os.replace(part, files / name)
            if (old := job.files.get(slot)) not in (None, name):
                (files / str(old)).unlink(missing_ok=True)
            (self.folder.home(job.id) / "look.json").unlink(missing_ok=True)
            self.folder.keep(replace(job, files={**job.files, slot: name}))
        return JSONResponse({"name": name}, 201)

    async def put_settings(self, request: Request) -> Response:
        """What was clicked or typed; other roles mean another look."""
        settings = Settings.from_json(await _json(request))
        job = self._job(request)
        if job.is_settled:
            raise Refused(409, SETTLED)
        is_new_look = (settings.roles, settings.positive) != (job.settings.roles, job.settings.positive)
        job = self.folder.keep(replace(job, settings=settings))
        if is_new_look:
            self.queue.renew(job, "look")
        return JSONResponse({"command": self._view(request).commands, "looks": is_new_look})

    async def start(self, request: Request) -> Response:
        """Look, fit, update or predict: queued, and begun when nothing else runs."""
        job, task = self._job(request), request.path_params["task"]
        if task not in TASK_NAMES:
            raise Refused(404, NOT_HERE)
        if not job.files:
            raise Refused(409, "There is no file yet. Drop one, or choose it.")
        if task.startswith("predict") and job.is_done:
            self.queue.put(job, task)
        elif job.is_settled or task not in ("look", job.kind):
            raise Refused(409, SETTLED)
        elif task == "look":
            self.queue.renew(job, task)
        else:
            self._prepare(job)
            self.queue.put(self.queue.stop(job), task)
        return JSONResponse({"task": task}, 202)

    async def stop(self, request: Request) -> Response:
        self.queue.stop(self._job(request))
        return JSONResponse({})

    async def again(self, request: Request) -> Response:
        return JSONResponse({"id": self.folder.again(self._job(request)).id}, 201)

    async def update(self, request: Request) -> Response:
        return JSONResponse({"id": self.folder.update_of(self._job(request)).id}, 201)

    async def remove(self, request: Request) -> Response:
        job = self._job(request)
        self.queue.stop(job)
        # A process that is being ended may still write.
        while self.queue.works_on(job.id):
            await asyncio.sleep(0.02)
        self.folder.remove(job.id)
        return JSONResponse({})

    async def report(self, request: Request) -> Response:
        """The report as it is; in a sandbox, so that it is a stranger to the page: first, since a second one would not count."""
        view = self._view(request)
        headers = {"Content-Security-Policy": f"sandbox allow-scripts; {view.answer['report_policy']}"}
        path = self._there(view.files / REPORT)
        return FileResponse(path, media_type="text/html", headers=headers)

    async def download(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in DOWNLOADS and name != REPORT:
            raise Refused(404, "There is no such file to take away.")
        path = self._there(self._view(request).files / name)
        return FileResponse(path, filename=name, headers={"Content-Security-Policy": "sandbox"})

    async def report_style(self, request: Request) -> Response:
        """The report's style sheet: the page looks like the report."""
        return FileResponse(REPORT_STYLE)

    async def refused(self, request: Request, error: Exception) -> Response:
        status = error.status if isinstance(error, Refused) else 500
        sentence = str(error) if isinstance(error, Refused) else FAULT
        if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            return self._html("refused.html", status=status, sentence=sentence)
        return JSONResponse({"sentence": sentence}, status)

    async def nowhere(self, request: Request, error: Exception) -> Response:
        return await self.refused(request, Refused(404, NOT_HERE))

    async def gone(self, request: Request, error: Exception) -> Response:
        """The browser left before its file was here: nobody reads this answer."""
        return Response(status_code=400)

    def _prepare(self, job: Job) -> None:
        """Refuse what cannot be fitted at once, and write what the command reads."""
        main_arguments(job, usual_roles(self.folder.home(job.id)))
        if job.settings.known_shares:
            path = self.folder.files(job.id) / KNOWN
            write_whole(path, known_shares_file(job.settings), force=True)

    def _job(self, request: Request) -> Job:
        return self.folder.get(request.path_params["id"])

    def _idle_job(self, request: Request) -> Job:
        """A job whose files may change: no model is made of them, and no process reads them."""
        job = self._job(request)
        if job.is_settled or self.queue.works_on(job.id):
            raise Refused(409, SETTLED)
        return job

    def _view(self, request: Request) -> JobView:
        return JobView(self.folder, self._job(request))

    def _parent(self, job: Job) -> Job | None:
        with suppress(Refused):
            return self.folder.get(job.parent) if job.parent else None
        return None

    def _there(self, path: Path) -> Path:
        if not path.is_file():
            raise Refused(404, "This is not there yet. Load the page again.")
        return path

    def _html(self, template: str, *, status: int = 200, **values: object) -> Response:
        page = templates().get_template(template).render(root=self.root, **values)
        return HTMLResponse(page.encode("utf-8", "replace"), status)


def make_app(folder: JobsFolder, *, token: str, port: int, most_upload: int) -> Guard:
    """The page as an ASGI application; the queue works while it is served."""
    queue = WorkQueue(folder)
    page = Page(folder, queue, f"/{token}/", most_upload)
    own = "/jobs/{id}"
    routes = [
        Route("/", page.home),
        Route("/jobs", page.new_job, methods=["POST"]),
        Route(own, page.job),
        Route(own, page.remove, methods=["DELETE"]),
        Route(f"{own}/state", page.state),
        Route(f"{own}/columns", page.columns),
        Route(f"{own}/shares", page.shares),
        Route(f"{own}/report", page.report),
        Route(f"{own}/download/{{name}}", page.download),
        Route(f"{own}/files/{{slot}}", page.put_file, methods=["PUT"]),
        Route(f"{own}/settings", page.put_settings, methods=["PUT"]),
        Route(f"{own}/start/{{task}}", page.start, methods=["POST"]),
        Route(f"{own}/stop", page.stop, methods=["POST"]),
        Route(f"{own}/again", page.again, methods=["POST"]),
        Route(f"{own}/update", page.update, methods=["POST"]),
        Route("/report.css", page.report_style),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]

    @asynccontextmanager
    async def working(app: Starlette) -> AsyncIterator[None]:
        work = asyncio.create_task(queue.run())
        yield
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work

    handlers: dict[Any, Any] = {Refused: page.refused, ClientDisconnect: page.gone, Exception: page.refused}
    handlers[404] = page.nowhere
    app = Starlette(routes=routes, lifespan=working, exception_handlers=handlers)
    return Guard(app, token=token, port=port)


async def _json(request: Request) -> dict[str, Any]:
    body = b""
    async with in_time(request, MOST_SETTINGS):
        async for piece in request.stream():
            body += piece
            if len(body) > MOST_SETTINGS:
                raise Refused(413, "These settings are larger than a page holds. Use the command line.")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, UNREADABLE) from error
    if not isinstance(found, dict):
        raise Refused(400, UNREADABLE)
    return found
