"""Commands of the project: `python -m tools.notebooks`, `python -m tools.measure_lengths`."""
