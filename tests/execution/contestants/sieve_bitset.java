import java.util.*;

public class Main {
    public static void main(String[] args) {
        int n = new Scanner(System.in).nextInt();
        BitSet composite = new BitSet(n + 1);
        for (int i = 2; (long) i * i <= n; i++)
            if (!composite.get(i)) for (int j = i * i; j <= n; j += i) composite.set(j);
        composite.flip(0, n + 1);
        composite.clear(0, Math.min(2, n + 1));
        System.out.println(composite.cardinality() + " " + composite.previousSetBit(n));
    }
}
/* cases
wrong: (long) i * i <= n >>> (long) i * i < n - 20
case: 100 => 25 97
case: 25 => 9 23
*/
