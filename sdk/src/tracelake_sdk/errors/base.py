"""Every deliberate error: the class, its wire code and its HTTP status in one line, shared by server and client.

The docstring is the default message and says what to do. The server turns an error into problem+json with
`problem()`, the client turns problem+json back into the same class with `TracelakeError.of()`.
"""

from typing import Any, ClassVar


class TracelakeError(Exception):
    """Something went wrong inside Tracelake; look the id up in the log."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    registered: ClassVar[dict[str, type["TracelakeError"]]] = {}

    def __init_subclass__(cls, *, code: str, status: int) -> None:
        super().__init_subclass__()
        if code in TracelakeError.registered:
            raise TypeError(f"error code {code!r} is taken by {TracelakeError.registered[code].__name__}")
        cls.code = code
        cls.status = status
        TracelakeError.registered[code] = cls

    def __init__(self, detail: str | None = None, *, id: str | None = None, retry_after: int | None = None, **extra: Any) -> None:
        self.detail: str = detail or (type(self).__doc__ or "").strip()
        self.id: str | None = id
        self.retry_after: int | None = retry_after
        self.extra: dict[str, Any] = extra
        super().__init__(self.detail)

    def problem(self) -> dict[str, Any]:
        """This error as a problem+json object (RFC 9457)."""
        title = type(self).__name__
        fields = {"type": f"urn:tracelake:error:{self.code}", "title": title, "status": self.status, "code": self.code, "detail": self.detail}
        return fields | ({"id": self.id} if self.id else {}) | ({"retry_after": self.retry_after} if self.retry_after else {}) | self.extra

    @staticmethod
    def of(problem: dict[str, Any]) -> "TracelakeError":
        """The error in a problem+json object; an unknown code becomes a plain TracelakeError with the same detail."""
        rest = dict(problem)
        for key in ("type", "title", "status"):
            rest.pop(key, None)
        code = rest.pop("code", "internal")
        kind = TracelakeError.registered.get(code, TracelakeError)
        return kind(rest.pop("detail", None), id=rest.pop("id", None), retry_after=rest.pop("retry_after", None), **rest)


TracelakeError.registered["internal"] = TracelakeError
