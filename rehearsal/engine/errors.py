"""The two kinds of mistake that a user of the engine can make."""


class EngineSettingsError(Exception):
    """The engine cannot use the command line, the model folder or the compiled folder. The message says what to do."""


class RequestRefused(Exception):
    """A request cannot be served: HTTP status, OpenAI's error type and the parameter at fault."""

    def __init__(
        self, message: str, *, status: int = 400, kind: str = "BadRequestError", param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.param = param
