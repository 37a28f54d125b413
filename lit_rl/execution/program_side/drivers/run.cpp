// Runs the tests' main, then sends the pass, which it takes before any constructor of the program runs.
#include <string.h>
#include <unistd.h>
static char pass[64];
static long length;
static bool failed;
static void take(int, char **, char **) { length = read(0, pass, sizeof pass); }
__attribute__((section(".preinit_array"), used)) static void (*first)(int, char **, char **) = take;
extern "C" int __real_main(int, char **, char **);
extern "C" int __wrap_main(int argc, char **argv, char **env) {
    char ours[sizeof pass];
    memcpy(ours, pass, sizeof pass);
    memset(pass, 0, sizeof pass);
    int status = __real_main(argc, argv, env);
    if (!status && !failed && write(3, ours, length) != length) return 1;
    return status;
}
// A program that has one of its own, so that asserts end nothing, does not link.
extern "C" void __assert_fail(const char *what, const char *, unsigned, const char *) {
    failed = true;
    (void)!write(2, "assertion failed: ", 18), (void)!write(2, what, strlen(what)), (void)!write(2, "\n", 1);
    _exit(134);
}
