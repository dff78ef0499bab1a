"""What `run.json` holds, as types: a file that says something else is damaged, or somebody else's."""

from typing import Any, Literal, NotRequired, TypedDict

State = Literal["running", "done", "interrupted", "failed"]


class UnitFacts(TypedDict):
    """A unit of the model that was examined."""

    name: str
    kind: str
    stage: int
    map_shape: NotRequired[list[int] | None]
    heads: NotRequired[int | None]
    downsamples: NotRequired[bool]


class TrainingFacts(TypedDict, total=False):
    """How the model was trained."""

    recipe: dict[str, Any]
    data: str | None
    images: int | None
    epochs: int
    accuracy: list[float]
    seconds: float


class Origin(TypedDict):
    """How the model can be made again."""

    name: str
    arguments: dict[str, Any]


class OperationFacts(TypedDict):
    """An operation that the model went through."""

    operation: str
    options: NotRequired[dict[str, Any]]
    places: NotRequired[list[str]]


class ModelFacts(TypedDict, total=False):
    """The model that a run is about."""

    name: str | None
    parameters: int | None
    input_size: list[int] | None
    weights_sha256: str | None
    flops: int | None
    units: list[UnitFacts] | None
    surgery: list[OperationFacts] | None
    interface: dict[str, Any] | None
    origin: Origin | None
    run: str | None
    training: TrainingFacts | None


class Command(TypedDict, total=False):
    """One command that wrote into the folder."""

    command: str | None
    time: str | None
    versions: dict[str, str] | None
    git_revision: str | None
    options: dict[str, Any] | None
    seed: int | None
    device: str | None
    model: ModelFacts | None
    seconds: float | None
    finished: str | None
    reason: str | None


class Record(Command):
    """The newest command and the state it left the folder in, with the earlier ones."""

    state: State
    earlier: NotRequired[list[Command]]
