"""The API page: Swagger UI from a wheel, so that it works offline and contacts no other server."""

from importlib.resources import files

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

_ASSETS = "/docs-assets"
# The browser refuses to load anything from another host.
_ONLY_THIS_HOST = "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"


def install(app: FastAPI) -> None:
    page = get_swagger_ui_html(
        openapi_url="/openapi.json",
        title=app.title,
        swagger_js_url=f"{_ASSETS}/swagger-ui-bundle.js",
        swagger_css_url=f"{_ASSETS}/swagger-ui.css",
        swagger_favicon_url=f"{_ASSETS}/favicon.png",
        swagger_ui_parameters={"validatorUrl": None},  # the default sends the document's address to an external service
    )
    page.headers["Content-Security-Policy"] = _ONLY_THIS_HOST

    async def docs() -> HTMLResponse:
        return page

    app.mount(_ASSETS, StaticFiles(directory=str(files("fastapi_offline").joinpath("static"))))
    app.add_api_route("/docs", docs, include_in_schema=False)
