import java.util.*;

public class Main {
    static class LRU<K, V> extends LinkedHashMap<K, V> {
        private final int cap;
        LRU(int cap) { super(16, 0.75f, true); this.cap = cap; }
        @Override protected boolean removeEldestEntry(Map.Entry<K, V> e) { return size() > cap; }
    }

    public static void main(String[] args) {
        Scanner sc = new Scanner(System.in);
        LRU<Integer, Integer> c = new LRU<>(sc.nextInt());
        int q = sc.nextInt();
        for (int i = 0; i < q; i++) {
            if (sc.next().equals("put")) c.put(sc.nextInt(), sc.nextInt());
            else System.out.println(c.getOrDefault(sc.nextInt(), -1));
        }
    }
}
/* cases
wrong: 0.75f, true >>> 0.75f, false
case: 2 6|put 1 10|put 2 20|get 1|put 3 30|get 2|get 1 => 10|-1|10
*/
