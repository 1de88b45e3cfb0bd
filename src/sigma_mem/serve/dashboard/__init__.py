"""The dashboard: a page inside the wheel, and the few reads that only it needs.

The page is plain HTML, one style sheet and ES modules, without a build step. It holds no data: it asks the
memory's API, with the key that the person gave it. Everything that models wrote is set as text.
"""

from sigma_mem.serve.dashboard.routes import page_routes, view_routes

__all__ = ["page_routes", "view_routes"]
