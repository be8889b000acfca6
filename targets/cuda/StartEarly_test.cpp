// Where kernels wait for those before them.
#include "targets/cuda/StartEarly.h"

#include <gtest/gtest.h>

using knapper::startEarly;

TEST(StartEarly, WaitsBeforeTheFirstInstruction) {
  EXPECT_EQ(startEarly(".version 8.0\n.visible .entry a(\n)\n{\n"
                       "\t.reg .b32 \t%r<2>;\n\n// %bb.0:\n"
                       "\tld.param.b64 \t%rd1, [a_param_0];\n\tret;\n}\n"
                       ".entry b(\n)\n{\n\tret;\n}\n"),
            ".version 8.0\n.visible .entry a(\n)\n{\n"
            "\t.reg .b32 \t%r<2>;\n\n// %bb.0:\n"
            "\tgriddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;\n"
            "\tld.param.b64 \t%rd1, [a_param_0];\n\tret;\n}\n"
            ".entry b(\n)\n{\n\tgriddepcontrol.launch_dependents;\n"
            "\tgriddepcontrol.wait;\n\tret;\n}\n");
}

static std::string kernel(const std::string &ahead) {
  return startEarly(".entry a(\n)\n{\n\tmov.u32 \t%r1, %tid.x;\n" + ahead +
                    "\tgriddepcontrol.wait;\n\tst.global.b32 [%rd1], %r1;\n"
                    "\tret;\n}\n");
}

TEST(StartEarly, KeepsAWaitThatHasTouchedNothing) {
  std::string ahead = "\tcp.async.bulk.prefetch.L2.global [%rd2], %r3;\n";
  EXPECT_EQ(kernel(ahead),
            ".entry a(\n)\n{\n\tgriddepcontrol.launch_dependents;\n"
            "\tmov.u32 \t%r1, %tid.x;\n" +
                ahead +
                "\tgriddepcontrol.wait;\n\tst.global.b32 [%rd1], %r1;\n"
                "\tret;\n}\n");
}

TEST(StartEarly, MovesAWaitThatComesTooLate) {
  for (std::string ahead :
       {"\tld.global.b32 \t%r2, [%rd1];\n", "\tatom.global.add [%rd1];\n",
        "$L__BB0_1:\n", "\t@%p1 bra \t$L__BB0_1;\n",
        "\tst.global.b32 \t[%rd1], %r2;\n"})
    EXPECT_EQ(kernel(ahead),
              ".entry a(\n)\n{\n\tgriddepcontrol.launch_dependents;\n"
              "\tgriddepcontrol.wait;\n\tmov.u32 \t%r1, %tid.x;\n" +
                  ahead + "\tst.global.b32 [%rd1], %r1;\n\tret;\n}\n");
}

TEST(StartEarly, KeepsReadsBehindTheWait) {
  EXPECT_EQ(startEarly(".entry a(\n)\n{\n"
                       "\tld.global.nc.v4.b32 \t{%r1, %r2}, [%rd1];\n"
                       "\t@%p1 ld.global.nc.b32 \t%r3, [%rd2];\n\tret;\n}\n"),
            ".entry a(\n)\n{\n\tgriddepcontrol.launch_dependents;\n"
            "\tgriddepcontrol.wait;\n"
            "\tld.global.v4.b32 \t{%r1, %r2}, [%rd1];\n"
            "\t@%p1 ld.global.b32 \t%r3, [%rd2];\n\tret;\n}\n");
}
