import java.math.*;
import java.util.*;

public class Main {
    public static void main(String[] args) {
        Scanner sc = new Scanner(System.in).useLocale(Locale.US);
        BigDecimal sum = BigDecimal.ZERO;
        int n = sc.nextInt();
        for (int i = 0; i < n; i++) sum = sum.add(sc.nextBigDecimal());
        System.out.println(sum.setScale(2, RoundingMode.HALF_UP).toPlainString());
        System.out.println(sum.divide(BigDecimal.valueOf(n), 5, RoundingMode.HALF_EVEN).stripTrailingZeros());
        System.out.println(new BigInteger("2").modPow(BigInteger.valueOf(n).pow(20), BigInteger.valueOf(1000003)));
    }
}
/* cases
wrong: RoundingMode.HALF_UP >>> RoundingMode.DOWN
case: 3|1.005|2.50|0.10 => 3.61|1.20167|954015
*/
