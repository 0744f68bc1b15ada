"""Inference with inducing points, in passes over chunks of rows."""
