"""Starts a program in which `import onnxruntime` gives Knapper.

    python -m knapper.ort script.py [ARGUMENT]...
    python -m knapper.ort -m uvicorn app:app
    python -m knapper.ort --path      # prints the folder that has to be on PYTHONPATH

The program's child processes inherit it.
"""

from knapper.ort.switch import STAND_IN

if __name__ == "__main__":
    raise SystemExit(STAND_IN.start(__doc__))
