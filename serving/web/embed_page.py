"""Writes the chat page as a C++ file, with the policy that lets only its own script and style run.

embed_page.py page.html ChatPage.cpp
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from pathlib import Path

PIECE = 4000  # compilers take literals of at least 64 KiB; short ones stay readable


def main() -> int:
    page = Path(sys.argv[1]).read_text(encoding="utf-8")

    def hashes(tag: str) -> str:
        found = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.S)
        return " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in found)

    policy = (
        f"default-src 'none'; script-src {hashes('script')}; style-src {hashes('style')}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    pieces = "\n".join(f'R"PAGE({page[i : i + PIECE]})PAGE"' for i in range(0, len(page), PIECE))
    Path(sys.argv[2]).write_text(
        '#include "serving/web/ChatPage.h"\n\nnamespace knapper::serving {\n\n'
        f"std::string_view chatPage() {{\n  return {pieces};\n}}\n\n"
        f'std::string chatPagePolicy() {{\n  return "{policy}";\n}}\n\n}} // namespace knapper::serving\n',
        encoding="utf-8",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
