"""``ordinalgp report``: write one page about a model."""

from pathlib import Path
from typing import Annotated

import typer

from ordinalgp.cli.common import Json, command, load_model, print_json
from ordinalgp.runtime.threads import threads_for


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "report", "ordinalgp report model.ogp -o report.html")(report)


def report(
    model: Annotated[Path, typer.Argument(help="Model file that ordinalgp fit wrote.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path(
        "report.html"
    ),
    as_json: Json = False,
) -> None:
    """Write one page about a model: summary, plots, and how to read them.

    The page is a single file that needs no network.
    """
    from ordinalgp.report import write_report

    fitted = load_model(model)
    with threads_for(len(fitted.codes_)):
        write_report(fitted, output)
    size = output.stat().st_size
    if as_json:
        print_json({"output": str(output), "bytes": size})
        return
    print(f"Written to {output} ({size / 1024:,.0f} kB). Open it in a browser.")
