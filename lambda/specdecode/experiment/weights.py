"""Models: where their weights come from, and where they lie in the bucket."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints, field_validator

from specdecode import s3_keys
from specdecode.experiment.base import Frozen, Name


class ModelKind(StrEnum):
    """The kind of weights: a language model, or a head that was trained for one target."""

    MODEL = "model"
    EAGLE = "eagle"
    EAGLE3 = "eagle3"
    DFLASH = "dflash"
    MEDUSA = "medusa"


class ModelRef(Frozen):
    """A model's weights: where they come from, and under which name they lie in the bucket.

    With `import_prefix` they are copied from that prefix of the artifact bucket (a user's own model);
    otherwise from the Hugging Face hub at `revision`.
    """

    id: Annotated[
        str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)?$", max_length=128)
    ]
    revision: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")] = "main"
    """Commit, tag or branch of the hub; with `import_prefix` a name of yours. A changed model needs a new one."""
    family: Name | None = None
    """Architecture and tokenizer family (`qwen3`, `llama3`); no rule of families checks models without it."""
    kind: ModelKind = ModelKind.MODEL
    gated: bool = False
    """Whether the model needs a Hugging Face token. Only the staging Job gets the token."""
    import_prefix: (
        Annotated[str, StringConstraints(pattern=r"^imports/([A-Za-z0-9][A-Za-z0-9_.-]*/)+$", max_length=512)] | None
    ) = None
    """Prefix of the artifact bucket with weights of your own, as `imports/my-model/`."""
    rescale_fp8: bool = False
    """Rescale OCP FP8 E4M3 weights to Neuron's FP8_EXP4 as a staging step."""
    size_gib: float = Field(gt=0, le=4096)
    """Size on disk in GiB, for the plan and for memory and ephemeral-storage requests."""

    @property
    def prefix(self) -> str:
        """Where the staged weights lie in the bucket (and below the working directory of a serving pod)."""
        return s3_keys.model_prefix(self.id, self.revision, rescaled=self.rescale_fp8, imported=self.import_prefix)

    @field_validator("id")
    @classmethod
    def _is_a_name_of_the_hub(cls, value: str) -> str:
        """Refuse what huggingface_hub's validate_repo_id refuses: `A--B` would be stored in the place of `A/B`."""
        if "--" in value or ".." in value:
            raise ValueError("a model's id has neither `--` nor `..`")
        return value

    @field_validator("revision")
    @classmethod
    def _is_no_other_form(cls, value: str) -> str:
        if value.endswith(s3_keys.RESCALED) or s3_keys.IMPORTED in value:
            message = f"no revision ends with {s3_keys.RESCALED} or has {s3_keys.IMPORTED}: such weights are stored so"
            raise ValueError(message)
        return value
