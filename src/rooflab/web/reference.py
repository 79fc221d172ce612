"""The OpenAPI page: what the server answers to, in plain HTML that fetches nothing."""

from __future__ import annotations

from html import escape
from typing import Any

from litestar import Request
from litestar.enums import MediaType
from litestar.openapi.plugins import OpenAPIRenderPlugin

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:860px;margin:40px auto;padding:0 20px;color-scheme:light dark}"
    "code,pre{font:13px/1.5 ui-monospace,monospace}pre{padding:12px;border:1px solid #8886;border-radius:6px;overflow:auto}"
)
_EXAMPLE = """curl -s {url}api/ask -H 'Content-Type: application/json' -d '
  {{"id": 1, "ask": {{"kind": "estimate", "model": "llama-3.1-8b", "on": "h100-sxm", "batch": 32}}}}'"""


class Reference(OpenAPIRenderPlugin):
    """Every path with what it does, and where the machine-readable forms are."""

    def __init__(self) -> None:
        super().__init__(path="/", media_type=MediaType.HTML)

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        """The page as bytes."""
        rows = [
            f"<dt><code>{escape(method.upper())} {escape(path)}</code></dt><dd>{escape(operation.get('description', ''))}</dd>"
            for path, methods in openapi_schema.get("paths", {}).items()
            for method, operation in methods.items()
        ]
        example = escape(_EXAMPLE.format(url=request.base_url))
        return (
            f"<!doctype html><html lang='en'><meta charset='utf-8'><title>RoofLab: API</title><style>{_STYLE}</style>"
            "<h1>RoofLab: API</h1><p>The page and every other client ask here. Questions and reports are described by "
            "<a href='/api/contract'>their JSON Schema</a>, the paths by <a href='/api/schema/openapi.json'>OpenAPI</a>. "
            "The WebSocket <code>/api/ws</code> takes the same messages as <code>POST /api/ask</code>.</p>"
            f"<dl>{''.join(rows)}</dl><pre>{example}</pre></html>"
        ).encode()
