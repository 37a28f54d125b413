import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
// By name: a program's own class of such a name then hides none of these.
import java.lang.Runtime;
import java.lang.String;
import java.lang.Throwable;

/** Runs the tests, then sends the pass. */
class LitRlRun {
    public static void main(String[] words) throws Throwable {
        Main.main(words);
        new FileOutputStream("/proc/self/fd/3").write(new FileInputStream(FileDescriptor.in).readAllBytes());
        Runtime.getRuntime().halt(0);
    }
}
