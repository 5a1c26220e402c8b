"""Samples in the exposition format of Prometheus, of the metrics of DCGM."""

from collections.abc import Mapping, Sequence

import msgspec

PREFIX = "DCGM_"


class DcgmSample(msgspec.Struct, frozen=True):
    """One line: the name of the metric, its labels, and its value."""

    name: str
    labels: Mapping[str, str]
    value: float

    @property
    def uuid(self) -> str:
        """The UUID of the device."""
        return self.labels.get("UUID", "")

    @property
    def gpu_instance(self) -> int | None:
        """The GPU instance that it is about; None for a device."""
        text = self.labels.get("GPU_I_ID", "")
        return int(text) if text.isascii() and text.isdigit() else None


def parse_samples(text: str) -> Sequence[DcgmSample]:
    """The samples of DCGM in an answer. `ValueError` if it is not in the exposition format."""
    # Loaded here: most nodes have no DCGM.
    from prometheus_client.parser import text_string_to_metric_families

    found: list[DcgmSample] = []
    try:
        for family in text_string_to_metric_families(text):
            found += [
                # The parser appends `_total` to the names of counters.
                DcgmSample(sample.name.removesuffix("_total"), sample.labels, float(sample.value))
                for sample in family.samples
                if sample.name.startswith(PREFIX)
            ]
    except (ValueError, IndexError, KeyError) as error:
        raise ValueError(f"not in the exposition format: {error}") from error
    return found
