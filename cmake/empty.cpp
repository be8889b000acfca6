// Some targets consist of archives alone; CMake wants a source.
