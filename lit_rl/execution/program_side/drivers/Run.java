import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;

/**
 * Runs the tests and then sends the pass, which it reads, and so takes, before any class of the program is loaded. It
 * keeps the pass outside of the heap, which a program can have written to a file.
 */
class LitRlRun {
    public static void main(String[] words) throws Throwable {
        ByteBuffer pass = ByteBuffer.allocateDirect(64);
        new FileInputStream(FileDescriptor.in).getChannel().read(pass);
        FileChannel answers = new FileOutputStream("/proc/self/fd/3").getChannel();
        try {
            Method tests = Class.forName("Main").getDeclaredMethod("main", String[].class);
            tests.setAccessible(true);
            tests.invoke(null, (Object) new String[0]);
        } catch (InvocationTargetException error) {
            throw error.getCause();
        }
        answers.write(pass.flip());
        Runtime.getRuntime().halt(0);
    }
}
