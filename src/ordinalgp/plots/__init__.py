"""Plots of fitted models, as Displays in scikit-learn's style; they need ``ordinalgp[plot]``.

``Display.from_estimator(model, X, y)`` computes and draws; ``.plot(ax=...)`` draws again elsewhere.
Models may be the last step of a pipeline: axes then show the inputs of the pipeline.
Levels differ in lightness and in marker, so that they differ in print and for colour-blind readers.
"""

from ordinalgp.plots.comparisons import ComparisonCurveDisplay, ComparisonDisplay, RankingDisplay
from ordinalgp.plots.effects import EffectDisplay
from ordinalgp.plots.explanation import ExplanationDisplay
from ordinalgp.plots.hyperparameters import EvidenceDisplay, RelevanceDisplay
from ordinalgp.plots.importance import ImportanceDisplay
from ordinalgp.plots.latent import (
    ContourDisplay,
    LatentDisplay,
    PosteriorDisplay,
    RelevanceVectorsDisplay,
)
from ordinalgp.plots.model_comparison import ModelComparisonDisplay
from ordinalgp.plots.predictions import CalibrationDisplay, ConfusionDisplay, IntervalDisplay

__all__ = [
    "CalibrationDisplay",
    "ComparisonCurveDisplay",
    "ComparisonDisplay",
    "ConfusionDisplay",
    "ContourDisplay",
    "EffectDisplay",
    "EvidenceDisplay",
    "ExplanationDisplay",
    "ImportanceDisplay",
    "IntervalDisplay",
    "LatentDisplay",
    "ModelComparisonDisplay",
    "PosteriorDisplay",
    "RankingDisplay",
    "RelevanceDisplay",
    "RelevanceVectorsDisplay",
]
