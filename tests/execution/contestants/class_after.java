import java.util.Scanner;

class Matrix {
    final long[][] a;
    static final long MOD = 1_000_000_007L;
    Matrix(long[][] a) { this.a = a; }
    Matrix times(Matrix o) {
        int n = a.length;
        long[][] r = new long[n][n];
        for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) for (int k = 0; k < n; k++)
            r[i][j] = (r[i][j] + a[i][k] * o.a[k][j]) % MOD;
        return new Matrix(r);
    }
}

class FibonacciMain {
    public static void main(String[] args) {
        long n = new Scanner(System.in).nextLong();
        Matrix result = new Matrix(new long[][]{{1, 0}, {0, 1}}), base = new Matrix(new long[][]{{1, 1}, {1, 0}});
        for (; n > 0; n >>= 1) {
            if ((n & 1) == 1) result = result.times(base);
            base = base.times(base);
        }
        System.out.println(result.a[0][1]);
    }
}
/* cases
wrong: result.a[0][1] >>> result.a[0][0]
case: 10 => 55
case: 1000000000000 => 730695249
*/
