"""``ordinalgp benchmark``: a paper's table beside ours, or our models beside other libraries."""

import json
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

if TYPE_CHECKING:
    import typer

_EXAMPLE = "ordinalgp benchmark gpor-table2 --trials 3 --datasets diabetes,stocks --models map,ep"


def register(app: "typer.Typer") -> None:
    """Add the command ``benchmark`` to an application."""
    import typer

    from ordinalgp.benchmark.experiments import EXPERIMENTS

    listed = ", ".join(EXPERIMENTS)

    @app.command("benchmark", epilog=f"Example: {_EXAMPLE}")
    def command(
        name: Annotated[str, typer.Argument(help=f"One of: {listed}.", show_default=False)],
        trials: Annotated[
            int | None, typer.Option(help="The first so many partitions; all by default.")
        ] = None,
        models: Annotated[
            list[str] | None, typer.Option(help="Some models; repeat, or separate by commas.")
        ] = None,
        datasets: Annotated[
            list[str] | None, typer.Option(help="Some data sets; repeat, or separate by commas.")
        ] = None,
        data_home: Annotated[
            Path | None, typer.Option(help="Folder of the data; else ORDINALGP_DATA, else OpenML.")
        ] = None,
        output: Annotated[
            Path,
            typer.Option(
                "--output", "-o", help="Folder of results; a run goes on from what is there."
            ),
        ] = Path("benchmark-results"),
        pages: Annotated[
            Path | None, typer.Option(help="Folder of the page; that of the results by default.")
        ] = None,
        jobs: Annotated[int, typer.Option(help="Fits at once.")] = 1,
        report_only: Annotated[
            bool, typer.Option("--report-only", help="Fit nothing; show what is there.")
        ] = False,
        retry_failed: Annotated[
            bool, typer.Option("--retry-failed", help="Repeat fits that failed before.")
        ] = False,
        as_json: Annotated[
            bool, typer.Option("--json", help="Print the records as JSON instead of tables.")
        ] = False,
    ) -> None:
        """A paper's table beside ours, on the same splits; stop it at any time and go on later."""
        options = {
            "trials": trials,
            "models": _split(models),
            "datasets": _split(datasets),
            "data_home": data_home,
            "output": output,
            "pages": pages,
            "jobs": jobs,
            "fits": "none" if report_only else "again" if retry_failed else "missing",
        }
        raise typer.Exit(_run(name, options, as_json=as_json))


def _split(given: list[str] | None) -> list[str] | None:
    return [name for text in given for name in text.split(",") if name] if given else None


def _run(name: str, options: dict[str, Any], *, as_json: bool) -> int:
    """Run and print; errors go to the error stream, with 2 for bad input, 130 after Ctrl-C."""
    from ordinalgp.benchmark import benchmark
    from ordinalgp.benchmark.report import to_terminal

    # A shell starts background jobs with SIGINT ignored; a run must be stoppable there too.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        outcome = benchmark(name, **options)
    except KeyboardInterrupt:
        print("\nInterrupted; the same command goes on from here.", file=sys.stderr)
        return 130
    except (ValueError, OSError, ImportError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    if as_json:
        print(json.dumps({"title": outcome.page.title, "records": outcome.records}))
    else:
        color = "always" if sys.stdout.isatty() else "never"
        print(to_terminal(outcome.page, color=color))
    print(f"Written: {', '.join(map(str, outcome.files))}", file=sys.stderr)
    return 0


def main() -> None:
    """Run the command alone (``python -m ordinalgp.benchmark``)."""
    try:
        import typer
    except ImportError:
        print('Error: this needs typer: pip install "ordinalgp[cli]".', file=sys.stderr)
        raise SystemExit(2) from None
    app = typer.Typer(add_completion=False)
    register(app)
    app()
