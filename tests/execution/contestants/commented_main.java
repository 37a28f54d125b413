/*
 * public class Fake { public static void main(String[] args) {} }
 */
import java.util.*;

public class Solution { // class Main { public static void main
    static String text = "class Other { public static void main(String[] a) { } }";
    static class Node { Node[] kids = new Node[26]; boolean end; int pass; }

    public static final void main(final String[] args) throws Exception {
        Scanner sc = new Scanner(System.in);
        Node root = new Node();
        int n = sc.nextInt(), q = sc.nextInt();
        for (int i = 0; i < n; i++) {
            Node at = root;
            for (char c : sc.next().toCharArray()) {
                if (at.kids[c - 'a'] == null) at.kids[c - 'a'] = new Node();
                at = at.kids[c - 'a'];
                at.pass++;
            }
            at.end = true;
        }
        for (int i = 0; i < q; i++) {
            Node at = root;
            for (char c : sc.next().toCharArray()) { at = at == null ? null : at.kids[c - 'a']; }
            System.out.println(at == null ? 0 : at.pass);
        }
    }
}
/* cases
wrong: at.pass++; >>> if (at.end) at.pass++;
case: 3 3|apple|app|ape|ap|app|b => 3|2|0
*/
