"""Numbers for Prometheus. Labels have few values (routes, methods, statuses, reads), and no user's names."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH")
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """The service's own registry and what is counted in it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._decided: dict[str, Counter] = {}
        self.requests = Counter(
            "sigma_mem_requests", "Requests served.", ("method", "route", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "sigma_mem_request_seconds",
            "Time until a response ended.",
            ("route",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.running = 0  # requests; a number of Prometheus's takes a lock to count up and down
        running = Gauge("sigma_mem_requests_running", "Requests being served.", registry=self.registry)
        running.set_function(lambda: self.running)
        self.decisions = Counter("sigma_mem_decisions", "Decisions made.", ("read",), registry=self.registry)
        self.feedback = Counter("sigma_mem_feedback", "Feedback taken.", registry=self.registry)
        self.upstream_calls = Counter(
            "sigma_mem_upstream_calls",
            "Calls of the gateway, by the upstream's name in the configuration.",
            ("peer", "outcome"),
            registry=self.registry,
        )

    def served(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; `route` is a path with names in place of values."""
        known = method if method in _METHODS else "other"
        found = self._children.get((known, route, status))
        if found is None:  # looking labels up takes longer than counting
            found = self.requests.labels(known, route, str(status)), self.seconds.labels(route)
            self._children[known, route, status] = found
        found[0].inc()
        found[1].observe(seconds)

    def decided(self, read: str) -> None:
        """Count a decision."""
        found = self._decided.get(read)
        if found is None:
            found = self._decided[read] = self.decisions.labels(read)
        found.inc()

    def text(self) -> bytes:
        """All of it in Prometheus's text format."""
        return generate_latest(self.registry)
