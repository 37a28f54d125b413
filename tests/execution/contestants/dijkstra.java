import java.io.*;
import java.util.*;

class Main {
    static class Pair implements Comparable<Pair> {
        int node;
        long dist;
        Pair(int node, long dist) { this.node = node; this.dist = dist; }
        @Override
        public int compareTo(Pair other) { return Long.compare(this.dist, other.dist); }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader br = new BufferedReader(new InputStreamReader(System.in));
        StringTokenizer st = new StringTokenizer(br.readLine());
        int n = Integer.parseInt(st.nextToken()), m = Integer.parseInt(st.nextToken());
        List<List<Pair>> g = new ArrayList<>();
        for (int i = 0; i <= n; i++) g.add(new ArrayList<>());
        for (int i = 0; i < m; i++) {
            st = new StringTokenizer(br.readLine());
            int a = Integer.parseInt(st.nextToken()), b = Integer.parseInt(st.nextToken());
            long w = Long.parseLong(st.nextToken());
            g.get(a).add(new Pair(b, w));
            g.get(b).add(new Pair(a, w));
        }
        long[] d = new long[n + 1];
        Arrays.fill(d, Long.MAX_VALUE);
        d[1] = 0;
        PriorityQueue<Pair> pq = new PriorityQueue<>();
        pq.add(new Pair(1, 0));
        while (!pq.isEmpty()) {
            Pair cur = pq.poll();
            if (cur.dist > d[cur.node]) continue;
            for (Pair e : g.get(cur.node)) {
                if (d[cur.node] + e.dist < d[e.node]) {
                    d[e.node] = d[cur.node] + e.dist;
                    pq.add(new Pair(e.node, d[e.node]));
                }
            }
        }
        System.out.println(d[n] == Long.MAX_VALUE ? -1 : d[n]);
    }
}
/* cases
wrong: g.get(b).add(new Pair(a, w)); >>> g.get(b).add(new Pair(a, 1));
case: 4 4|2 1 4|1 3 1|3 2 2|2 4 5 => 8
case: 3 1|1 2 7 => -1
*/
