import java.util.*;

public class Main {
    public static void main(String[] args) {
        Scanner sc = new Scanner(System.in);
        int n = sc.nextInt();
        TreeSet<Integer> set = new TreeSet<>();
        for (int i = 0; i < n; i++) {
            int x = sc.nextInt();
            Integer c = set.ceiling(x);
            if (c != null) set.remove(c);
            set.add(x);
        }
        System.out.println(set.size());
    }
}
/* cases
wrong: set.ceiling(x) >>> set.floor(x)
case: 6|5 1 4 2 3 0 => 3
case: 3|7 7 7 => 1
*/
