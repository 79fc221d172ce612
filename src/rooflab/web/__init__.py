"""The page: served by a local server, or written as a folder that any web server can hand out."""

from rooflab.web.app import serve
from rooflab.web.site import site

__all__ = ["serve", "site"]
