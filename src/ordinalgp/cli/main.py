"""The command ``ordinalgp``.

A command's module is imported when the command is called. ``--version`` and ``--help`` import
none of them, nor numpy.
"""

import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any

import ordinalgp

_EPILOG = "Start with: ordinalgp demo"


@dataclass(frozen=True)
class Entry:
    """Module of a command, its line in ``--help``, and an example."""

    module: str
    summary: str
    example: str


COMMANDS = {  # in the order of --help
    "demo": Entry(
        "demo",
        "Fit, compare, predict and report on real data that come with scikit-learn.",
        "demo -o demo-output",
    ),
    "fit": Entry(
        "fit",
        "Fit a model to a table, print a summary, and save the model.",
        "fit grades.csv --target grade --categories low,mid,high -o model.ogp",
    ),
    "predict": Entry(
        "saved_model",
        "Predict the level of every row, with an interval, all probabilities and the latent "
        "function.",
        "predict model.ogp new.csv -o predictions.csv",
    ),
    "evaluate": Entry(
        "saved_model",
        "Score a model on rows whose levels are known, beside a naive baseline.",
        "evaluate model.ogp test.csv --plots plots",
    ),
    "compare": Entry(
        "compare",
        "Compare our models with usual ones on a table, by cross-validation.",
        "compare grades.csv --target grade --categories low,mid,high --plot compare.png",
    ),
    "explain": Entry(
        "explain",
        "Explain predictions: which columns move a row, and how far the next level is.",
        "explain model.ogp new.csv --row 3 --plot row.png",
    ),
    "rank": Entry(
        "rank",
        "Rank items from comparisons of pairs, best first.",
        "rank items.csv comparisons.csv -o ranking.csv",
    ),
    "ask": Entry(
        "ask",
        "Ask people which of two items is better, and rank the items while they answer.",
        'ask essays.csv --question "Which essay is better?"',
    ),
    "rate": Entry(
        "rate",
        "Fit a model to ratings of items by many raters, and save it.",
        "rate ratings.csv -o model.ogp --items items.csv",
    ),
    "recommend": Entry(
        "rate",
        "Recommend items that a rater has not rated, those with the highest expected rating first.",
        "recommend model.ogp Ann Bob -n 5",
    ),
    "report": Entry(
        "saved_model",
        "Write one page about a model: summary, plots, and how to read them.",
        "report model.ogp -o report.html",
    ),
}


def build() -> Any:
    """The application with all of its commands."""
    import typer
    from typer.core import TyperCommand, TyperGroup

    class Commands(TyperGroup):
        """Commands that are listed by their summaries, and imported when they are called."""

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            for name, entry in COMMANDS.items():
                self.add_command(TyperCommand(name, help=entry.summary))

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name, found, rest = super().resolve_command(ctx, args)
            return name, found and _imported(found.name), rest

    app = typer.Typer(
        name="ordinalgp",
        cls=Commands,
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

    return app


def _imported(name: str) -> Any:
    """The command of that name, with its options."""
    import typer

    from ordinalgp.cli.common import plain_errors

    entry = COMMANDS[name]
    function = getattr(import_module(f"ordinalgp.cli.{entry.module}"), name)
    # Lines of a paragraph are joined, so that terminals of any width wrap them.
    paragraphs = [" ".join(text.split()) for text in str(function.__doc__).split("\n\n")]
    told = {"help": "\n\n".join(paragraphs), "epilog": f"Example: ordinalgp {entry.example}"}
    alone = typer.Typer(add_completion=False)
    alone.command(name, **told)(plain_errors()(function))
    return typer.main.get_command(alone)


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
        _tolerate(stream)
    build()()


def _tolerate(stream: Any) -> None:
    """Let a stream take every character: a terminal without ± is no reason to stop.

    Files and pipes get UTF-8 on Windows too, where they would get an encoding of single bytes.
    """
    if hasattr(stream, "reconfigure"):
        piped = sys.platform == "win32" and not stream.isatty()
        stream.reconfigure(errors="replace", encoding="utf-8" if piped else None)


if __name__ == "__main__":
    main()
