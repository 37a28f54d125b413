import java.io.*;
import java.util.*;

public class Main {
    static class InputReader {
        private final byte[] buf = new byte[1 << 16];
        private int head, tail;
        private final InputStream is = System.in;
        private byte read() {
            if (head == tail) {
                try { tail = is.read(buf, head = 0, buf.length); } catch (IOException e) { throw new InputMismatchException(); }
                if (tail == -1) return -1;
            }
            return buf[head++];
        }
        public int nextInt() {
            byte b = read();
            while (b < '-') b = read();
            boolean neg = false;
            if (b == '-') { neg = true; b = read(); }
            int x = 0;
            while (b >= '0') { x = x * 10 + b - '0'; b = read(); }
            return neg ? -x : x;
        }
    }
    static long[] t;
    static void add(int i, long v) { for (; i < t.length; i += i & -i) t[i] += v; }
    static long sum(int i) { long s = 0; for (; i > 0; i -= i & -i) s += t[i]; return s; }
    public static void main(String[] args) {
        InputReader in = new InputReader();
        int n = in.nextInt();
        t = new long[n + 1];
        long inv = 0;
        for (int i = 0; i < n; i++) { int x = in.nextInt(); inv += i - sum(x); add(x, 1); }
        System.out.println(inv);
    }
}
/* cases
wrong: i += i & -i >>> i += i
case: 5|2 3 1 5 4 => 3
case: 4|4 3 2 1 => 6
*/
