import java.util.*;
import java.io.*;
public class Main {
    public static PrintWriter pw = new PrintWriter(System.out);
    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        int[] a = Arrays.stream(in.readLine().split(" ")).mapToInt(Integer::parseInt).toArray();
        int n = a[0], W = a[1];
        long[] dp = new long[W + 1];
        for (int i = 0; i < n; i++) {
            int[] x = Arrays.stream(in.readLine().split(" ")).mapToInt(Integer::parseInt).toArray();
            for (int w = W; w >= x[0]; w--) dp[w] = Math.max(dp[w], dp[w - x[0]] + x[1]);
        }
        pw.println(dp[W]);
        pw.flush();
        System.exit(0);
    }
}
/* cases
wrong: for (int w = W; w >= x[0]; w--) >>> for (int w = x[0]; w <= W; w++)
case: 3 8|3 30|4 50|5 60 => 90
case: 1 10|2 7 => 7
*/
