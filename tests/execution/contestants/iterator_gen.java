import java.util.*;

public class Main {
    static class Range implements Iterable<Integer> {
        final int lo, hi, step;
        Range(int lo, int hi, int step) { this.lo = lo; this.hi = hi; this.step = step; }
        public Iterator<Integer> iterator() {
            return new Iterator<Integer>() {
                int at = lo;
                public boolean hasNext() { return at < hi; }
                public Integer next() { int r = at; at += step; return r; }
            };
        }
    }
    static @interface Marker { }
    @Marker
    public static void main(String[] args) {
        Scanner sc = new Scanner(System.in);
        StringJoiner sj = new StringJoiner(", ", "[", "]");
        for (int x : new Range(sc.nextInt(), sc.nextInt(), sc.nextInt())) sj.add(Integer.toString(x));
        System.out.println(sj);
    }
}
/* cases
wrong: at < hi >>> at <= hi
case: 1 10 3 => [1, 4, 7]
*/
