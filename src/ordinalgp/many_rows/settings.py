"""Sizes and tolerances of a fit with many rows."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ManyRowsSettings:
    """Sizes of the stages, and the tolerances of the passes; one object for the whole fit."""

    exact_rows: int = 2000
    """rows up to which "auto" is exact"""
    auto_points: int = 512
    """largest number of inducing points that "auto" takes"""
    subset_rows: int = 800
    """rows of stage 1, exact inference"""
    sample_rows: int = 4096
    """rows of stage 3, the evidence with inducing points"""
    pool_rows: int = 100_000
    """rows read once, from which all samples are drawn"""
    warm_rows: tuple[int, ...] = (20_000, 100_000)
    """rows of the first passes, where there are several times more"""
    warm_share: int = 3
    """all rows over warm rows, at least"""
    kept_rows: int = 20_000
    """rows kept in memory for the evidence at other hyperparameters"""
    chunk_rows: int = 8192
    """rows processed at a time"""
    candidates_per_point: int = 20
    """rows from which each inducing point is chosen"""
    unexplained_variance: float = 1e-4
    """of the noise variance, where "auto" stops adding points: costs half as many nats per row"""
    refine_steps: int = 10
    """of the search on the sample, whose start is already good"""
    refine_gain: float = 1e-5
    """relative, below which it ends: 1e-5 nats per row"""
    many_rows_per_point: int = 20
    """from which on the posterior is better known than the model"""
    move_together: bool = True
    """whether scale and place of likelihood and latent function move as one after a pass"""
    tolerated_fall: float = 0.1
    """of what a step promised: evidence that falls by more shows it was too long"""
    promise: float = 2e-5
    """nats per row: a pass that promises less is the last"""
    promise_few_rows: float = 2e-8
    """the same with few rows per point"""
    patience: int = 10
    """passes that together gain less than ``idle_gain`` are in vain"""
    idle_gain: float = 2e-6
    """nats per row"""
    block_rows: int = 300
    """rows of a block, at most, where neighbours predict"""
    halo_rows: int = 150
    """rows near a block that inform its sites"""
    auto_neighbours: int = 200
    """rows from which a new row is predicted"""
    subset_steps: int = 40
    """of the search on a subset, before that on blocks"""
    block_search_rows: int = 3000
    """rows of the blocks on which the two starts compete"""
    trial_steps: int = 6
    """of each of the two"""
    block_search_steps: int = 15
    """of the better one, on the same rows"""
    refine_rows: int = 8000
    """rows of the blocks on which ``refine_steps`` follow"""
    choice_places: int = 8
    """around which rows are held out to choose between neighbours and inducing points"""
    choice_steps: int = 20
    """of the search on a subset that a choice begins with"""
    choice_rows: int = 4096
    """rows from which inducing points predict these"""
    choice_points: int = 256
    """number of inducing points then, at most"""
    choice_margin: float = 0.01
    """nats by which neighbours must be better, since the short fit favours them"""
    length_scale_sd: float = 1.0
    """deviation of the hyperprior on log length scales of the default kernel"""
    report_seconds: float = 10.0
    """between reports within a pass"""
