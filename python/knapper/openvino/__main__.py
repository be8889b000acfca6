"""Starts a program in which `import openvino` gives Knapper.

    python -m knapper.openvino script.py [ARGUMENT]...
    python -m knapper.openvino -m uvicorn app:app
    python -m knapper.openvino --path      # prints the folder that has to be on PYTHONPATH

The program's child processes inherit it.
"""

from knapper.openvino.switch import STAND_IN

if __name__ == "__main__":
    raise SystemExit(STAND_IN.start(__doc__))
