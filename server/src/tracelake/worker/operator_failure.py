"""The failure of an operator of any runtime, with a reason that its task shows."""


class OperatorFailed(Exception):
    """The operator cannot complete its task: a class to group by, a sentence with the remedy, and whether another attempt may help."""

    def __init__(self, error_class: str, message: str, *, retry: bool) -> None:
        super().__init__(message)
        self.error_class: str = error_class
        self.message: str = message
        self.retry: bool = retry
