import java.io.*;
import java.util.*;

class Pair<A extends Comparable<A>, B extends Comparable<B>> implements Comparable<Pair<A, B>> {
    A first; B second;
    Pair(A a, B b) { first = a; second = b; }
    public int compareTo(Pair<A, B> o) {
        int c = first.compareTo(o.first);
        return c != 0 ? c : o.second.compareTo(second);
    }
    public String toString() { return "(" + first + ", " + second + ")"; }
}

public class Main {
    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PriorityQueue<Pair<Integer, String>> pq = new PriorityQueue<>();
        String line;
        while ((line = in.readLine()) != null && !line.isEmpty()) {
            String[] p = line.split(" ");
            pq.add(new Pair<>(Integer.valueOf(p[1]), p[0]));
        }
        while (!pq.isEmpty()) System.out.println(pq.poll());
    }
}
/* cases
wrong: o.second.compareTo(second) >>> second.compareTo(o.second)
case: bob 3|ann 1|cid 3 => (1, ann)|(3, cid)|(3, bob)
*/
