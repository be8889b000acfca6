# The lit suite: every test/*.mlir beside the code of its folder.
#   lit-22 -sv build/dev/tests/lit                      everything
#   lit-22 -sv build/dev/tests/lit --filter ir/tile     one folder
import os

import lit.formats

config.name = "knapper"
config.suffixes = [".mlir"]
config.test_source_root = config.knapper_source
config.test_exec_root = os.path.join(config.knapper_build, "tests", "lit", "out")
config.excludes = ["lit", "build", ".git", ".venv", "third_party", "inputs", "shared"]

config.test_format = lit.formats.ShTest(execute_external=False)
config.environment["PATH"] = os.pathsep.join(
    [os.path.join(config.knapper_build, "bin"), os.environ.get("PATH", "")]
)
for tool in ("knapper-opt", "knapper-translate"):
    config.substitutions.append(
        (r"\b%s\b" % tool, os.path.join(config.knapper_build, "tools", tool, tool))
    )
config.substitutions.append((r"\bFileCheck\b", config.filecheck))
if config.ptxas and not config.ptxas.endswith("NOTFOUND"):
    config.available_features.add("ptxas")
    config.substitutions.append((r"%ptxas", config.ptxas))
