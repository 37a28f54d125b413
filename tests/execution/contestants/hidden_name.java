import java.util.Scanner;

class String2 { }

class Codechef {
    static class System2 { static void print(Object o) { System.out.println(o); } }

    static class List { Node head; int n; }
    static class Node { int v; Node next; Node(int v, Node next) { this.v = v; this.next = next; } }

    static Node reverse(Node n) {
        Node prev = null;
        while (n != null) { Node t = n.next; n.next = prev; prev = n; n = t; }
        return prev;
    }

    public static void main(String[] args) {
        Scanner sc = new Scanner(System.in);
        List l = new List();
        for (l.n = sc.nextInt(); l.n > 0; l.n--) l.head = new Node(sc.nextInt(), l.head);
        StringBuilder sb = new StringBuilder();
        for (Node x = reverse(l.head); x != null; x = x.next) sb.append(x.v).append(x.next == null ? "" : "->");
        System2.print(sb);
    }
}
/* cases
wrong: reverse(l.head) >>> l.head
case: 4|1 2 3 4 => 1->2->3->4
*/
