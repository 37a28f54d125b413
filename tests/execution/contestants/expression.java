import java.util.*;

public class Main {
    static class Parser {
        final String s; int p = 0;
        Parser(String s) { this.s = s.replace(" ", ""); }
        long expr() {
            long v = term();
            while (p < s.length() && (s.charAt(p) == '+' || s.charAt(p) == '-')) {
                if (s.charAt(p++) == '+') v += term(); else v -= term();
            }
            return v;
        }
        long term() {
            long v = factor();
            while (p < s.length() && s.charAt(p) == '*') { p++; v *= factor(); }
            return v;
        }
        long factor() {
            if (s.charAt(p) == '-') { p++; return -factor(); }
            if (s.charAt(p) == '(') { p++; long v = expr(); p++; return v; }
            int st = p;
            while (p < s.length() && Character.isDigit(s.charAt(p))) p++;
            return Long.parseLong(s.substring(st, p));
        }
    }

    public static void main(String[] args) {
        Scanner sc = new Scanner(System.in);
        while (sc.hasNextLine()) {
            String line = sc.nextLine();
            if (line.isBlank()) continue;
            System.out.println(new Parser(line).expr());
        }
    }
}
/* cases
wrong: v -= term() >>> v = term() - v
case: 2 + 3 * (4 - 1)|-5 - 2 * 3 => 11|-11
*/
