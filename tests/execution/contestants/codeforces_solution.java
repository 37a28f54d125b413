import java.io.*;
import java.util.*;

public class CF1234B {
    static FastScanner sc = new FastScanner(System.in);
    static PrintWriter out = new PrintWriter(new BufferedOutputStream(System.out));

    static void solve() {
        int n = sc.nextInt(), k = sc.nextInt();
        LinkedHashSet<Integer> set = new LinkedHashSet<>();
        for (int i = 0; i < n; i++) {
            int id = sc.nextInt();
            if (set.contains(id)) continue;
            if (set.size() == k) set.remove(set.iterator().next());
            set.add(id);
        }
        ArrayList<Integer> list = new ArrayList<>(set);
        Collections.reverse(list);
        out.println(list.size());
        for (int x : list) out.print(x + " ");
        out.println();
    }

    public static void main(String[] args) {
        solve();
        out.close();
    }

    static class FastScanner {
        private final InputStream in;
        private final byte[] buf = new byte[1024];
        private int ptr = 0, len = 0;
        FastScanner(InputStream in) { this.in = in; }
        private int read() {
            if (ptr == len) {
                ptr = 0;
                try { len = in.read(buf); } catch (IOException e) { return -1; }
                if (len <= 0) return -1;
            }
            return buf[ptr++];
        }
        int nextInt() {
            int c = read(), r = 0;
            while (c <= ' ') c = read();
            for (; c > ' '; c = read()) r = r * 10 + (c - '0');
            return r;
        }
    }
}
/* cases
wrong: Collections.reverse(list); >>> Collections.sort(list);
case: 7 2|1 2 3 2 1 3 2 => 2|2 1
case: 10 4|2 3 3 1 1 2 1 2 3 3 => 3|1 3 2
*/
