#include "serving/grammar/CloseDescriptors.h"

#include "gtest/gtest.h"
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace knapper::serving;

namespace {

bool isOpen(int file) { return fcntl(file, F_GETFD) >= 0; }

// In a copy of the process: the test needs its own.
TEST(CloseDescriptors, FromOneOn) {
  for (bool bySystemCall : {true, false}) {
    pid_t copy = fork();
    if (copy == 0) {
      for (int file : {100, 101, 500, 900})
        dup2(STDERR_FILENO, file);
      closeDescriptors(101, bySystemCall);
      bool good = isOpen(100) && isOpen(STDERR_FILENO) && !isOpen(101) &&
                  !isOpen(500) && !isOpen(900);
      _exit(good ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(copy, &status, 0), copy);
    EXPECT_EQ(status, 0) << bySystemCall;
  }
}

} // namespace
