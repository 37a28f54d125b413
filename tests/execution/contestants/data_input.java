import java.util.*; import java.io.*; public class Main {
    static DataInputStream din = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));

    static int ni() throws IOException {
        int ret = 0, b = din.read();
        while (b != '-' && (b < '0' || b > '9')) b = din.read();
        boolean neg = b == '-';
        if (neg) b = din.read();
        while (b >= '0' && b <= '9') {
            ret = ret * 10 + b - '0';
            b = din.read();
        }
        return neg ? -ret : ret;
    }

    static public void main(String args[]) throws IOException {
        int n = ni(), q = ni();
        long[] pre = new long[n + 1];
        for (int i = 1; i <= n; i++) pre[i] = pre[i - 1] + ni();
        StringBuilder sb = new StringBuilder();
        while (q-- > 0) {
            int l = ni(), r = ni();
            sb.append(pre[r] - pre[l - 1]).append('\n');
        }
        System.out.print(sb);
    }
}
/* cases
wrong: pre[l - 1] >>> pre[l]
case: 5 3|1 -2 3 4 5|1 5|2 3|4 4 => 11|1|4
*/
