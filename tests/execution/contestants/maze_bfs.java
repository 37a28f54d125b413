import java.util.*;

public class Main {
    static final int[] DX = {0, 0, 1, -1}, DY = {1, -1, 0, 0};
    static int h, w;
    static char[][] g;

    private static class State {
        int x, y, d;
        State(int x, int y, int d) { this.x = x; this.y = y; this.d = d; }
    }

    public static void main(String[] args) {
        Scanner sc = new Scanner(System.in);
        h = sc.nextInt(); w = sc.nextInt();
        g = new char[h][];
        for (int i = 0; i < h; i++) g[i] = sc.next().toCharArray();
        boolean[][] seen = new boolean[h][w];
        Queue<State> q = new LinkedList<>();
        q.offer(new State(0, 0, 0));
        seen[0][0] = true;
        while (!q.isEmpty()) {
            State s = q.remove();
            if (s.x == h - 1 && s.y == w - 1) { System.out.println(s.d); return; }
            for (int k = 0; k < 4; k++) {
                int nx = s.x + DX[k], ny = s.y + DY[k];
                if (nx < 0 || ny < 0 || nx >= h || ny >= w || seen[nx][ny] || g[nx][ny] == '#') continue;
                seen[nx][ny] = true;
                q.offer(new State(nx, ny, s.d + 1));
            }
        }
        System.out.println("no way");
    }
}
/* cases
wrong: || g[nx][ny] == '#' >>> || g[nx][ny] == '?'
case: 3 4|..#.|.#..|.... => 5
case: 2 2|.#|#. => no way
*/
