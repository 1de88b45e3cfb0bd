"""The page's files: public, because there is no data in them."""

from importlib.resources import files

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sigma_mem.serve.auth import needs
from sigma_mem.serve.failures import RefusedError

CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
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


def page_routes() -> APIRouter:
    """``/dashboard/`` and the files it loads."""
    routes = APIRouter()
    content = page_files()

    @needs("nobody")
    async def to_page(request: Request) -> Response:
        return RedirectResponse("/dashboard/", 308)

    @needs("nobody")
    async def page(request: Request) -> Response:
        return _file_response("index.html", content["index.html"])

    @needs("nobody")
    async def file(request: Request) -> Response:
        name = request.path_params["file"]
        if name not in content:
            raise RefusedError(404, "not_found", f"the dashboard has no file {name!r}; open /dashboard/")
        return _file_response(name, content[name])

    routes.add_route("/dashboard", to_page, include_in_schema=False)
    routes.add_route("/dashboard/", page, include_in_schema=False)
    routes.add_route("/dashboard/{file}", file, include_in_schema=False)
    return routes


def page_files() -> dict[str, bytes]:
    """The content of every file of the page, by name."""
    folder = files("sigma_mem.serve.dashboard").joinpath("static")
    return {file.name: file.read_bytes() for file in folder.iterdir() if _suffix(file.name) in CONTENT_TYPES}


def _file_response(name: str, content: bytes) -> Response:
    headers = {"content-security-policy": POLICY, "content-type": CONTENT_TYPES[_suffix(name)]}
    return Response(content, headers=headers)


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]
