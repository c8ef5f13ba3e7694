"""The model of a run: a new one, or the one of the last checkpoint."""

from typing import Any

import kernelstream as ks
from kernelstream import persistence
from kernelstream.cli.by_key import ByKey
from kernelstream.cli.run_options import TASKS, Options, Progress
from kernelstream.stores import as_device
from kernelstream.tables import SourceError, TableEncoder

__all__ = ["begin", "extra"]

_COMMITTEES = {
    "classify": ks.AutoClassifier, "regress": ks.AutoRegressor, "novelty": ks.AutoDetector,
}  # fmt: skip
_VERSION = 1  # of what a checkpoint has beside the model


def _new_model(options: Options) -> Any:
    """Return the model of a new run: the committee, or a preset that scales rows as it learns."""
    if "prompt_targets" in options.params and (
        options.key is not None
        or options.algorithm not in (None, "auto")
        or options.task == "novelty"
    ):
        raise ValueError(
            "--prompt-targets adds a member to the committee, to classify or to regress: leave it "
            "out, or leave --key and --algorithm out."
        )
    missing = {"skip": "error", None: "mean"}.get(options.missing, options.missing)
    if options.key is not None:
        chosen = {"scaling": "running" if options.scale else None, "missing": missing}
        algorithm = options.algorithm or "svmd"
        if options.algorithm is None and options.task == "classify":
            chosen["loss"] = "log_loss"  # as accurate as the hinge here, and it knows probabilities
        return ByKey.make(algorithm, TASKS[options.task], **{**chosen, **options.params})
    if options.algorithm in (None, "auto"):
        own = ["nu"] if options.task == "novelty" else ["device", "prompt_targets"]
        unknown = [name for name in options.params if name not in ["budget", *own]]
        if unknown:
            raise ValueError(
                f"--{unknown[0]} is for a single algorithm: add --algorithm svmd, say, or leave it "
                "out."
            )
        return _COMMITTEES[options.task](missing=missing, **options.params)
    model = ks.make(options.algorithm, TASKS[options.task], missing=missing, **options.params)
    if options.scale and model.scaling is None:
        model.set_params(scaling="running")
    return model


def begin(options: Options) -> tuple[Any, Any, Any, Progress]:
    """Return checkpoints, model, encoder and progress: new ones, or those to continue with."""
    face: Any = (lambda model: model) if options.key is None else ByKey
    device = as_device(options.params.get("device"))
    if device is not None:
        device.open()  # an error names what is missing, before any row is read
    if options.checkpoint is None:
        return None, face(_new_model(options)), None, Progress()
    checkpoints = ks.Checkpointer(options.checkpoint, every_rows=options.checkpoint_rows, keep=2)
    model, position, saved = checkpoints.resume_with_extra(
        lambda: _new_model(options), device=device
    )
    if not position:
        return checkpoints, face(model), None, Progress()
    if saved is not None and "run" in saved:
        persistence.check_version("the progress of the run", saved.get("version"), _VERSION)
    begun = (saved or {}).get("run", "one of another program")
    if begun != _fingerprint(options):
        raise SourceError(
            f"{options.checkpoint} holds a checkpoint of another run ({begun}): give another "
            "--checkpoint folder, or delete this one."
        )
    encoder = None if options.key is None else TableEncoder.from_json(saved["encoder"])
    return checkpoints, face(model), encoder, Progress(**saved["progress"])


def _fingerprint(options: Options) -> dict[str, Any]:
    """Return the options that must be the same to resume a run."""
    given = {
        k: repr(v) for k, v in options.params.items() if k != "device"
    }  # any device may continue
    return {
        "algorithm": options.algorithm or "auto", "params": given,
        "missing": options.missing or "mean",
        **({} if options.key is None else {"key": options.key}),
        "source": options.source, "target": options.target, "task": options.task,
        "block_rows": options.block_rows, "hashed": options.hashed, "scale": options.scale,
    }  # fmt: skip


def extra(options: Options, encoder: Any, progress: Progress) -> dict[str, Any]:
    """Return what a checkpoint has beside the model."""
    return {
        "version": _VERSION, "run": _fingerprint(options), "task": options.task,
        "target": options.target,
        **({} if encoder is None else {"encoder": encoder.to_json()}),
        "progress": progress.__dict__,
    }  # fmt: skip
