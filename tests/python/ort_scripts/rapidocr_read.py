"""rapidocr: detection, direction and recognition of drawn text."""

import sys

import cv2
import numpy as np
from rapidocr_onnxruntime import RapidOCR

folder, out = sys.argv[1:]
page = np.full((160, 480, 3), 255, np.uint8)
cv2.putText(page, "Invoice 2026", (20, 60), cv2.FONT_HERSHEY_SIMPLEX, 1.5, (0, 0, 0), 3)
cv2.putText(page, "Total 417.50", (20, 130), cv2.FONT_HERSHEY_SIMPLEX, 1.5, (40, 40, 40), 3)
engine = RapidOCR(intra_op_num_threads=2)
found, _ = engine(page)
np.savez(
    out,
    texts=np.array([text for _, text, _ in found]),
    boxes=np.array([box for box, _, _ in found]),
    scores=np.array([float(score) for _, _, score in found], np.float32),
)
