import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
// Imported by name, so that a program's own class of the same name hides none of these.
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
