"""Readers of result files: one file per format, each giving rows by `bayes_sd.schema`."""
