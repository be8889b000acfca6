// The executable `knapper`.
#include "knapper/knapper.h"

int main(int argc, char **argv) { return knapper_command_line(argc, argv); }
