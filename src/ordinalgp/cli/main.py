"""The command ``ordinalgp``."""

import sys
from typing import Annotated, Any

import ordinalgp

_EPILOG = "Start with: ordinalgp demo"


def build() -> Any:
    """The application with all of its commands."""
    import typer

    from ordinalgp.cli.common import plain_errors
    from ordinalgp.cli.demo import demo
    from ordinalgp.cli.fit import fit
    from ordinalgp.cli.rank import rank
    from ordinalgp.cli.saved_model import evaluate, predict, report

    app = typer.Typer(
        name="ordinalgp",
        epilog=_EPILOG,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def tell_version(asked: bool) -> None:
        if asked:
            print(f"ordinalgp {ordinalgp.__version__}")
            raise typer.Exit

    told = typer.Option(
        "--version", callback=tell_version, is_eager=True, help="Print the version."
    )

    @app.callback()
    def _options(version: Annotated[bool, told] = False) -> None:
        """Gaussian processes for ordered outcomes: grades, ratings, stages."""

    examples: dict[Any, str] = {  # in the order of --help
        demo: "demo -o demo-output",
        fit: "fit grades.csv --target grade --categories low,mid,high -o model.ogp",
        predict: "predict model.ogp new.csv -o predictions.csv",
        evaluate: "evaluate model.ogp test.csv --plots plots",
        rank: "rank items.csv comparisons.csv -o ranking.csv",
        report: "report model.ogp -o report.html",
    }
    for command, example in examples.items():
        app.command(epilog=f"Example: ordinalgp {example}")(plain_errors()(command))
    return app


def main() -> None:
    """Run the command line; if its packages are missing, print how to install them."""
    try:
        import rich
        import typer
    except ImportError as error:
        sys.exit(
            f"The command line needs {error.name}, which is not installed. "
            "Install it with: pip install 'ordinalgp[cli]'"
        )
    _ = rich, typer
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without ± is no reason to stop
    build()()


if __name__ == "__main__":
    main()
