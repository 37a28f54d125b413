import java.io.*;
import java.util.*;

public class Main {
    static abstract class SegTree<T> {
        Object[] t; int n;
        SegTree(int n) { this.n = n; t = new Object[2 * n]; Arrays.fill(t, neutral()); }
        abstract T neutral();
        abstract T join(T a, T b);
        @SuppressWarnings("unchecked") T at(int i) { return (T) t[i]; }
        void set(int i, T v) { for (t[i += n] = v; i > 1; i >>= 1) t[i >> 1] = join(at(i & ~1), at(i | 1)); }
        T query(int l, int r) {
            T a = neutral(), b = neutral();
            for (l += n, r += n; l < r; l >>= 1, r >>= 1) {
                if ((l & 1) == 1) a = join(a, at(l++));
                if ((r & 1) == 1) b = join(at(--r), b);
            }
            return join(a, b);
        }
    }

    public static void main(String[] args) throws IOException {
        StreamTokenizer st = new StreamTokenizer(new BufferedReader(new InputStreamReader(System.in)));
        st.nextToken(); int n = (int) st.nval;
        st.nextToken(); int q = (int) st.nval;
        SegTree<Integer> tree = new SegTree<>(n) {
            Integer neutral() { return Integer.MAX_VALUE; }
            Integer join(Integer a, Integer b) { return Math.min(a, b); }
        };
        for (int i = 0; i < n; i++) { st.nextToken(); tree.set(i, (int) st.nval); }
        PrintWriter out = new PrintWriter(System.out);
        while (q-- > 0) {
            st.nextToken(); int k = (int) st.nval;
            st.nextToken(); int a = (int) st.nval;
            st.nextToken(); int b = (int) st.nval;
            if (k == 1) tree.set(a - 1, b); else out.println(tree.query(a - 1, b));
        }
        out.flush();
    }
}
/* cases
wrong: tree.query(a - 1, b) >>> tree.query(a, b)
case: 5 4|5 3 8 1 9|2 1 3|1 4 7|2 3 5|2 2 2 => 3|7|3
*/
