import java.math.BigInteger;
import java.util.Scanner;

public class Main {
    public static void main(String[] args) {
        Scanner in = new Scanner(System.in);
        while (in.hasNextInt()) {
            int n = in.nextInt();
            BigInteger f = BigInteger.ONE;
            for (int i = 2; i <= n; i++) f = f.multiply(BigInteger.valueOf(i));
            System.out.printf("%d! = %s%n", n, f);
        }
        in.close();
    }
}
/* cases
wrong: BigInteger.valueOf(i) >>> BigInteger.valueOf(i + 1)
case: 5|20|25 => 5! = 120|20! = 2432902008176640000|25! = 15511210043330985984000000
*/
