// Runs the tests' main, then sends the pass.
#include <unistd.h>
extern "C" int __real_main(int, char **, char **);
extern "C" int __wrap_main(int argc, char **argv, char **env) {
    int status = __real_main(argc, argv, env);
    char pass[64];
    if (!status && write(3, pass, read(0, pass, sizeof pass)) != sizeof pass) return 1;
    return status;
}
