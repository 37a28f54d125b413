import java.util.*;

class Tester {
    public static void main(String[] args) { System.out.println("self test"); }
}

public class Main {
    static int gcd(int a, int b) { return b == 0 ? a : gcd(b, a % b); }

    public static void main(String[] args) {
        Scanner sc = new Scanner(System.in);
        int n = sc.nextInt(), g = 0;
        while (n-- > 0) g = gcd(g, sc.nextInt());
        System.out.println(g);
    }
}
/* cases
wrong: g = gcd(g, sc.nextInt()) >>> g = gcd(n, sc.nextInt())
case: 3|12 18 27 => 3
case: 2|8 20 => 4
*/
