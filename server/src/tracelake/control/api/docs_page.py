"""The page of the API: Swagger UI from a wheel, so that it works without the internet and contacts no other server."""

from importlib.resources import files

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

_ASSETS = "/docs-assets"
# The browser refuses whatever the page might load from another host.
_ONLY_THIS_HOST = "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"


def install(app: FastAPI) -> None:
    page = get_swagger_ui_html(
        openapi_url="/openapi.json",
        title=app.title,
        swagger_js_url=f"{_ASSETS}/swagger-ui-bundle.js",
        swagger_css_url=f"{_ASSETS}/swagger-ui.css",
        swagger_favicon_url=f"{_ASSETS}/favicon.png",
        swagger_ui_parameters={"validatorUrl": None},  # its own way is to send the address of the document to a service
    )
    page.headers["Content-Security-Policy"] = _ONLY_THIS_HOST

    async def docs() -> HTMLResponse:
        return page

    app.mount(_ASSETS, StaticFiles(directory=str(files("fastapi_offline").joinpath("static"))))
    app.add_api_route("/docs", docs, include_in_schema=False)
