"""How an operator of any runtime fails: for a reason that its task shows."""


class OperatorFailed(Exception):
    """The operator cannot do its task: a class to group by, a sentence with the remedy, and whether another attempt may help."""

    def __init__(self, error_class: str, message: str, *, retry: bool) -> None:
        super().__init__(message)
        self.error_class: str = error_class
        self.message: str = message
        self.retry: bool = retry
