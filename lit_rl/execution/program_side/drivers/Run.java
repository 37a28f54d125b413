import java.io.FileOutputStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;

/** Runs the tests and then sends the pass, which it reads, and so takes, before any class of the program is loaded. */
class LitRlRun {
    public static void main(String[] words) throws Throwable {
        byte[] pass = System.in.readAllBytes();
        FileOutputStream answers = new FileOutputStream("/proc/self/fd/3");
        try {
            Method tests = Class.forName("Main").getDeclaredMethod("main", String[].class);
            tests.setAccessible(true);
            tests.invoke(null, (Object) new String[0]);
        } catch (InvocationTargetException error) {
            throw error.getCause();
        }
        answers.write(pass);
        Runtime.getRuntime().halt(0);
    }
}
