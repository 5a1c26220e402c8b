"""From the answers of servers to the answer of the service. Pure."""

from collections.abc import Iterable

from kilonova.serving.grpc import inference_pb2 as pb

READY = "READY"

ModelIndex = pb.RepositoryIndexResponse.ModelIndex


def merge_indexes(
    answers: Iterable[pb.RepositoryIndexResponse], *, ready: bool
) -> pb.RepositoryIndexResponse:
    """All models that any server has. A model is ready if it is on any server; with `ready`, the
    others are left out."""
    merged: dict[tuple[str, str], ModelIndex] = {}
    for answer in answers:
        for model in answer.models:
            key = model.name, model.version
            known = merged.get(key)
            if known is None or (
                known.state != READY and (model.state == READY or not known.state)
            ):
                merged[key] = model
    # A server that has not loaded a model lists it without a version.
    versioned = {name for name, version in merged if version}
    return pb.RepositoryIndexResponse(
        models=[
            merged[name, version]
            for name, version in sorted(merged)
            if (version or name not in versioned)
            and (not ready or merged[name, version].state == READY)
        ]
    )


def merge_statistics(answers: Iterable[pb.ModelStatisticsResponse]) -> pb.ModelStatisticsResponse:
    """The sums over all servers, for each version of each model."""
    merged: dict[tuple[str, str], pb.ModelStatistics] = {}
    for answer in answers:
        for model in answer.model_stats:
            known = merged.get((model.name, model.version))
            if known is None:
                known = merged[model.name, model.version] = pb.ModelStatistics()
                known.CopyFrom(model)
            else:
                _add_statistics(known, model)
    return pb.ModelStatisticsResponse(model_stats=[merged[key] for key in sorted(merged)])


def _add_statistics(total: pb.ModelStatistics, other: pb.ModelStatistics) -> None:
    total.last_inference = max(total.last_inference, other.last_inference)
    total.inference_count += other.inference_count
    total.execution_count += other.execution_count
    _add_durations(total.inference_stats, other.inference_stats)
    batches = {each.batch_size: each for each in total.batch_stats}
    for batch in other.batch_stats:
        if batch.batch_size in batches:
            _add_durations(batches[batch.batch_size], batch)
        else:
            total.batch_stats.append(batch)
    for name, response in other.response_stats.items():
        _add_durations(total.response_stats[name], response)
    memory = {(each.type, each.id): each for each in total.memory_usage}
    for usage in other.memory_usage:
        if (usage.type, usage.id) in memory:
            memory[usage.type, usage.id].byte_size += usage.byte_size
        else:
            total.memory_usage.append(usage)


Durations = pb.InferStatistics | pb.InferBatchStatistics | pb.InferResponseStatistics


def _add_durations(total: Durations, other: Durations) -> None:
    """Add all fields that are a number of times and their duration."""
    for field, value in other.ListFields():
        if isinstance(value, pb.StatisticDuration):
            sum_: pb.StatisticDuration = getattr(total, field.name)
            sum_.count += value.count
            sum_.ns += value.ns
