"""Shrinks a model to the smallest that still fails: `python -m knapper.reduce --help`.

Needs the package onnx. `reducer.py` does it, `checks.py` says what a failure is.
"""
