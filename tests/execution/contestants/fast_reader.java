import java.io.*;
import java.util.*;

public class Main {
    static class FastReader {
        BufferedReader br = new BufferedReader(new InputStreamReader(System.in));
        StringTokenizer st;

        String next() {
            while (st == null || !st.hasMoreElements()) {
                try {
                    st = new StringTokenizer(br.readLine());
                } catch (IOException e) {
                    e.printStackTrace();
                }
            }
            return st.nextToken();
        }

        int nextInt() { return Integer.parseInt(next()); }
        long nextLong() { return Long.parseLong(next()); }
    }

    public static void main(String[] args) {
        FastReader fr = new FastReader();
        int t = fr.nextInt();
        while (t-- > 0) {
            int n = fr.nextInt();
            long best = Long.MIN_VALUE, cur = 0;
            for (int i = 0; i < n; i++) {
                long x = fr.nextLong();
                cur = Math.max(cur + x, x);
                best = Math.max(best, cur);
            }
            System.out.println(best);
        }
    }
}
/* cases
wrong: Math.max(cur + x, x) >>> Math.max(cur + x, 0)
case: 2|5|1 -2 3 4 -1|3|-5 -2 -9 => 7|-2
case: 1|1|-4 => -4
*/
