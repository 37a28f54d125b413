import java.util.*;
import static java.lang.Math.*;
import static java.lang.System.in;
import static java.lang.System.out;

public class Main {
    static final int MOD = (int) 1e9 + 7;
    static long pow(long b, long e) {
        long r = 1;
        for (b %= MOD; e > 0; e /= 2, b = b * b % MOD) if (e % 2 == 1) r = r * b % MOD;
        return r;
    }
    static long[] f = new long[200001];

    public static void main(String[] args) {
        f[0] = 1;
        for (int i = 1; i < f.length; i++) f[i] = f[i - 1] * i % MOD;
        Scanner s = new Scanner(in);
        int n = s.nextInt(), k = s.nextInt();
        out.println(k > n ? 0 : f[n] * pow(f[k], MOD - 2) % MOD * pow(f[n - k], MOD - 2) % MOD);
        out.println(max(abs(n - k), 1));
    }
}
/* cases
wrong: MOD - 2) % MOD * >>> MOD - 1) % MOD *
case: 10 3 => 120|7
case: 100000 50000 => 149033233|50000
*/
