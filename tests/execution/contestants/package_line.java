package codeforces.round812;

import java.util.*;

public class Main {
    public static void main(String[] args) {
        Scanner sc = new Scanner(System.in);
        int n = sc.nextInt();
        TreeMap<Integer, Integer> count = new TreeMap<>();
        for (int i = 0; i < n; i++) count.merge(sc.nextInt(), 1, Integer::sum);
        for (Map.Entry<Integer, Integer> e : count.descendingMap().entrySet())
            System.out.println(e.getKey() + ":" + e.getValue());
    }
}
/* cases
wrong: descendingMap().entrySet() >>> entrySet()
case: 6|3 1 3 2 1 3 => 3:3|2:1|1:2
*/
