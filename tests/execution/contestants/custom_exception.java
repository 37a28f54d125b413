import java.util.*;

public class Main {
    static class BadMove extends RuntimeException {
        final int line;
        BadMove(int line, String why) { super(why); this.line = line; }
    }

    static void move(Deque<Integer>[] pegs, int a, int b, int line) {
        if (pegs[a].isEmpty()) throw new BadMove(line, "empty");
        if (!pegs[b].isEmpty() && pegs[b].peek() < pegs[a].peek()) throw new BadMove(line, "bigger");
        pegs[b].push(pegs[a].pop());
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    public static void main(String[] args) {
        Scanner sc = new Scanner(System.in);
        int n = sc.nextInt(), m = sc.nextInt();
        Deque<Integer>[] pegs = new Deque[]{new ArrayDeque<>(), new ArrayDeque<>(), new ArrayDeque<>()};
        for (int i = n; i >= 1; i--) pegs[0].push(i);
        try {
            for (int i = 1; i <= m; i++) move(pegs, sc.nextInt() - 1, sc.nextInt() - 1, i);
            System.out.println(pegs[2].size() == n ? "solved" : "not yet");
        } catch (BadMove e) {
            System.out.println("line " + e.line + ": " + e.getMessage());
        } finally {
            sc.close();
        }
    }
}
/* cases
wrong: pegs[b].peek() < pegs[a].peek() >>> pegs[b].peek() > pegs[a].peek()
case: 2 3|1 2|1 3|2 3 => solved
case: 2 2|1 2|1 2 => line 2: bigger
*/
