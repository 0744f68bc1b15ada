"""Sphinx's settings for the documentation. ``make docs`` builds it into docs/_build/html."""

import os
import sys
import warnings
from pathlib import Path

# Examples are small: threads of linear algebra that wait for each other only slow them down.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import ordinalgp  # noqa: E402

project = "ordinalgp"
author = "The ordinalgp developers"
copyright = "The ordinalgp developers"
version = release = ordinalgp.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "mathml",
]
exclude_patterns = ["_build", "README.md", "gallery/*.ipynb", "gallery/*.py"]
templates_path = ["_templates"]
default_role = "code"
nitpicky = False  # types of numpy, scipy and scikit-learn lead to sites that an offline build lacks

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
# Docstrings inside the engine, which have no page, cite most entries of the bibliography.
suppress_warnings = ["myst.header", "ref.citation"]

autosummary_generate = True
autodoc_typehints = "none"  # docstrings name the types, in words
autodoc_member_order = "groupwise"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"__init__\.py|conftest\.py",
    "abort_on_example_error": False,
    "only_warn_on_example_error": True,  # with -W, a warning fails the build, after all examples
    "min_reported_time": 1,
    "show_memory": False,
    "write_computation_times": False,  # its page loads scripts from the network
    "show_signature": False,
    "remove_config_comments": True,
    "download_all_examples": False,
    "backreferences_dir": "reference/backreferences",
    "doc_module": ("ordinalgp",),
    "inspect_global_variables": False,
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib",),
    "subsection_order": [
        f"../examples/{name}" for name in ("levels", "comparisons", "raters", "tables", "inside")
    ],
    "within_subsection_order": "FileNameSortKey",
}
warnings.filterwarnings("ignore", message=".*FigureCanvasAgg is non-interactive.*")


def skip_inherited(app, what, name, obj, skip, options):  # noqa: D103
    # scikit-learn's own methods, such as get_params, have their place in its documentation.
    module = getattr(obj, "__module__", None) or ""
    return True if module.startswith("sklearn.") else None


def write_bibliography(app):  # noqa: D103
    # One page for symbols, and for all citations in docstrings, from the engine's own text.
    import ordinalgp.core

    _, _, text = ordinalgp.core.__doc__.partition("\n\n")
    page = HERE / "reference" / "generated" / "bibliography.rst"
    page.parent.mkdir(parents=True, exist_ok=True)
    title = "Symbols and bibliography"
    page.write_text(f"{title}\n{'=' * len(title)}\n\n{text}", encoding="utf-8")


def setup(app):  # noqa: D103
    app.connect("autodoc-skip-member", skip_inherited)
    app.connect("builder-inited", write_bibliography)


html_theme = "pydata_sphinx_theme"
html_title = "ordinalgp"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_math_renderer = "mathml"
html_favicon = "_static/favicon.svg"
html_theme_options = {
    "logo": {
        "text": "ordinalgp",
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo.svg",
    },
    "icon_links": [
        {
            "name": "GitHub",
            "url": "https://github.com/ordinalgp/ordinalgp",
            "icon": "fa-brands fa-github",
        }
    ],
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "show_nav_level": 1,
    # None for the gallery, so that pictures have room. A page may match one pattern only.
    "secondary_sidebar_items": {"[!g]**": ["page-toc"], "guide/**": ["page-toc"]},
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
