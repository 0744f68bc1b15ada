"""Checks of what users give: ordered labels, weights, options and memory."""
