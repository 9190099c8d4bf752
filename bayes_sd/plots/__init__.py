"""Plots, one file per question. They draw numbers computed elsewhere and return their Axes."""
