import java.util.*;

public class Main {
    record Edge(int u, int v, long w) implements Comparable<Edge> {
        public int compareTo(Edge o) { return Long.compare(w, o.w); }
    }

    static int[] p;

    static int find(int x) { return p[x] == x ? x : (p[x] = find(p[x])); }

    public static void main(String[] args) {
        Scanner sc = new Scanner(System.in);
        int n = sc.nextInt(), m = sc.nextInt();
        p = new int[n];
        for (int i = 0; i < n; i++) p[i] = i;
        var edges = new ArrayList<Edge>();
        for (int i = 0; i < m; i++) edges.add(new Edge(sc.nextInt() - 1, sc.nextInt() - 1, sc.nextLong()));
        Collections.sort(edges);
        long total = 0;
        int used = 0;
        for (Edge e : edges) {
            int a = find(e.u()), b = find(e.v());
            if (a == b) continue;
            p[a] = b;
            total += e.w();
            used++;
        }
        System.out.println(used == n - 1 ? String.valueOf(total) : "IMPOSSIBLE");
    }
}
/* cases
wrong: if (a == b) continue; >>> if (e.u() == e.v()) continue;
case: 4 5|1 2 3|2 3 1|1 3 2|3 4 10|4 1 7 => 10
case: 3 1|1 2 5 => IMPOSSIBLE
*/
