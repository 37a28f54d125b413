import java.util.*;

public class Main {
    private static final class Graph {
        private final int n;
        private final List<List<Integer>> out = new ArrayList<>();
        private final int[] deg;

        private Graph(int n) {
            this.n = n;
            deg = new int[n];
            for (int i = 0; i < n; ++i) out.add(new ArrayList<>());
        }

        private void edge(int u, int v) { out.get(u).add(v); ++deg[v]; }

        private Optional<List<Integer>> order() {
            PriorityQueue<Integer> ready = new PriorityQueue<>();
            for (int i = 0; i < n; ++i) if (deg[i] == 0) ready.add(i);
            List<Integer> result = new ArrayList<>();
            while (!ready.isEmpty()) {
                int u = ready.poll();
                result.add(u + 1);
                for (int v : out.get(u)) if (--deg[v] == 0) ready.add(v);
            }
            return result.size() == n ? Optional.of(result) : Optional.empty();
        }
    }

    public static void main(String[] args) {
        Scanner in = new Scanner(System.in);
        Graph g = new Graph(in.nextInt());
        for (int m = in.nextInt(); m > 0; --m) g.edge(in.nextInt() - 1, in.nextInt() - 1);
        System.out.println(g.order().map(l -> String.join(" ", l.stream().map(String::valueOf).toArray(String[]::new))).orElse("CYCLE"));
    }
}
/* cases
wrong: result.size() == n >>> result.size() > 0
case: 4 3|3 1|1 2|4 2 => 3 1 4 2
case: 3 3|1 2|2 3|3 2 => CYCLE
*/
