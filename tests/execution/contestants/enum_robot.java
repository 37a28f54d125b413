import java.util.*;

public class Main {
    enum Dir {
        N(0, 1), E(1, 0), S(0, -1), W(-1, 0);
        final int dx, dy;
        Dir(int dx, int dy) { this.dx = dx; this.dy = dy; }
        Dir right() { return values()[(ordinal() + 1) % 4]; }
        Dir left() { return values()[(ordinal() + 3) % 4]; }
    }

    public static void main(String[] args) {
        Scanner s = new Scanner(System.in);
        String cmd = s.nextLine();
        int x = 0, y = 0;
        Dir d = Dir.N;
        for (char c : cmd.toCharArray()) {
            switch (c) {
                case 'R' -> d = d.right();
                case 'L' -> d = d.left();
                default -> { x += d.dx; y += d.dy; }
            }
        }
        System.out.println(x + " " + y + " " + d);
    }
}
/* cases
wrong: (ordinal() + 3) % 4 >>> (ordinal() + 2) % 4
case: FFRFFLF => 2 3 N
case: LFFF => -3 0 W
*/
