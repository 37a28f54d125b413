import java.util.*;

public class Main {
    static final long B = 911382323L, M = (1L << 61) - 1;

    static long mul(long a, long b) {
        long hi = Math.multiplyHigh(a, b), lo = a * b;
        long r = (lo & M) + ((lo >>> 61) | (hi << 3));
        r = (r & M) + (r >>> 61);
        return r >= M ? r - M : r;
    }

    public static void main(String[] args) {
        Scanner sc = new Scanner(System.in);
        String s = sc.next(), t = sc.next();
        int m = t.length(), hits = 0;
        long h = 0, g = 0, p = 1;
        for (int i = 0; i < m; i++) { g = (mul(g, B) + t.charAt(i)) % M; if (i > 0) p = mul(p, B); }
        for (int i = 0; i < s.length(); i++) {
            if (i >= m) h = (h - mul(p, s.charAt(i - m)) + M) % M;
            h = (mul(h, B) + s.charAt(i)) % M;
            if (i >= m - 1 && h == g) hits++;
        }
        System.out.println(hits);
    }
}
/* cases
wrong: i >= m - 1 && h == g >>> i >= m && h == g
case: abababa aba => 3
case: aaaa b => 0
*/
