import java.util.*;

public class Main {
    static long[] basis = new long[61];

    static boolean insert(long x) {
        for (int b = 60; b >= 0; b--) {
            if ((x >> b & 1) == 0) continue;
            if (basis[b] == 0) { basis[b] = x; return true; }
            x ^= basis[b];
        }
        return false;
    }

    public static void main(String[] args) {
        Scanner sc = new Scanner(System.in);
        int n = sc.nextInt(), rank = 0;
        for (int i = 0; i < n; i++) if (insert(sc.nextLong())) rank++;
        long best = 0;
        for (int b = 60; b >= 0; b--) best = Math.max(best, best ^ basis[b]);
        System.err.println("rank=" + rank);
        System.out.println(best + " " + (1L << n - rank));
    }
}
/* cases
wrong: 1L << n - rank >>> 1L << n
case: 4|3 10 5 15 => 15 2
case: 2|1152921504606846976 1 => 1152921504606846977 1
*/
