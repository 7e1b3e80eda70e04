"""The Hugging Face hub for the pod programs: its library's errors become exit codes, and no message holds a token."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from specdecode.exit_codes import Exit
from specdecode.pod.program import PodError


class Hub:
    """A request to the hub about the repository `name` at `revision`."""

    def __init__(self, name: str, revision: str, *, token: str | None) -> None:
        self.library = import_module("huggingface_hub")  # slow to import, and not everybody needs it
        self._errors = import_module("huggingface_hub.errors")
        self.name, self.revision, self.token = name, revision, token

    def call(self, request: Callable[[], Any]) -> Any:
        """The result of `request`, or PodError: for the hub's own errors first, then for errors on the way."""
        errors = self._errors
        try:
            return request()
        except errors.GatedRepoError as error:
            raise PodError(
                Exit.NO_TOKEN,
                f"{self.name} is gated: accept its licence on huggingface.co with the account whose token is in "
                f"Secrets Manager ({'a token was given' if self.token else 'no token was given'})",
            ) from error
        except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.RemoteEntryNotFoundError) as error:
            message = f"{self.name}@{self.revision} is not on the hub: {self._readable(error)}"
            raise PodError(Exit.NOT_FOUND, message) from error
        except (errors.HTTPError, errors.XetDownloadError, OSError, RuntimeError) as error:
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                raise
            refused = isinstance(error, errors.HfHubHTTPError) and error.response.status_code in (401, 403)
            what = "refused the token" if refused and self.token else "failed"
            message = f"the Hugging Face hub {what} for {self.name}: {self._readable(error.__cause__ or error)}"
            raise PodError(Exit.NO_TOKEN if refused else Exit.UNAVAILABLE, message) from error

    def _readable(self, error: BaseException) -> str:
        """The library's message, without the token and without the queries of URLs, which are signed."""
        text = re.sub(r"(https?://[^\s?]+)\?[^\s'\"]+", r"\1?…", str(error))
        return text.replace(self.token, "…") if self.token else text
