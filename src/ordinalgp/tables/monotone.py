"""Monotone columns of a table: their features, and what the evidence says of them."""

from collections.abc import Mapping
from typing import Any

from ordinalgp.tables.cells import BadInput
from ordinalgp.tables.encoding import Encoder, NominalColumn

# A Bayes factor of 20, "strong" evidence: weaker objections are common with a true constraint.
_OBJECTION = -3.0


def feature_directions(encoder: Encoder, monotone: Mapping[str, int]) -> list[int]:
    """-1, 0 or 1 for every encoded feature, from those of columns by name."""
    columns = {column.name: column for column in encoder.columns}
    unknown = [name for name in monotone if name not in columns]
    if unknown:
        raise BadInput(
            f"Monotone column {', '.join(unknown)}: no such column. There are {', '.join(columns)}."
        )
    nominal = [name for name in monotone if isinstance(columns[name], NominalColumn)]
    if nominal:
        raise BadInput(
            f"Monotone column {', '.join(nominal)}: a nominal column has no order. Leave it out, "
            "or write its values as numbers."
        )
    # The first feature of a number, a rank or a date is its value; another one marks gaps.
    first = {places[0]: name for name, places in encoder.groups.items()}
    return [monotone.get(first.get(at, ""), 0) for at in range(len(encoder.features))]


def agreements(model: Any) -> list[dict[str, Any]] | None:
    """Direction of each monotone column and its log Bayes factor; None without such columns."""
    found = getattr(model.classifier_, "monotone_evidence_", None)
    if found is None:
        return None
    told = []
    for name, places in model.encoder_.groups.items():
        sign = model.classifier_.monotone[places[0]]
        if sign:
            value = float(found[places[0]])
            direction = "increasing" if sign > 0 else "decreasing"
            about = {"column": name, "direction": direction, "log_bayes_factor": value}
            told.append(about | {"data_object": value < _OBJECTION})
    return told


def sentence(agreement: Mapping[str, Any]) -> str:
    """The evidence for a monotone column in words."""
    value = agreement["log_bayes_factor"]
    verdict = "the data object" if agreement["data_object"] else "the data do not object"
    return (
        f"{agreement['column']} is {agreement['direction']}: {verdict} "
        f"(log Bayes factor {value:+.1f})."
    )
