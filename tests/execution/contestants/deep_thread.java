import java.io.*;
import java.util.*;

public class Main implements Runnable {
    public static void main(String[] args) {
        new Thread(null, new Main(), "whatever", 1 << 28).start();
    }

    List<Integer>[] adj;
    int[] size;

    void dfs(int v, int parent) {
        size[v] = 1;
        for (int to : adj[v]) {
            if (to == parent) continue;
            dfs(to, v);
            size[v] += size[to];
        }
    }

    @SuppressWarnings("unchecked")
    public void run() {
        try {
            BufferedReader br = new BufferedReader(new InputStreamReader(System.in));
            int n = Integer.parseInt(br.readLine().trim());
            adj = new List[n];
            size = new int[n];
            for (int i = 0; i < n; i++) adj[i] = new ArrayList<>();
            for (int i = 1; i < n; i++) {
                adj[i].add(i - 1);
                adj[i - 1].add(i);
            }
            dfs(0, -1);
            System.out.println(size[0] + " " + size[n / 2]);
        } catch (IOException e) {
            throw new RuntimeException(e);
        }
    }
}
/* cases
wrong: size[v] += size[to]; >>> size[v] = size[to];
case: 100000 => 100000 50000
case: 7 => 7 4
*/
