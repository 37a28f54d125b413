import java.util.*;
import java.util.function.*;

public class Main {
    interface Op { long apply(long a, long b); }

    static final Map<String, Op> OPS = new HashMap<>();
    static {
        OPS.put("+", (a, b) -> a + b);
        OPS.put("-", (a, b) -> a - b);
        OPS.put("*", (a, b) -> a * b);
        OPS.put("/", (a, b) -> a / b);
    }

    public static void main(String... args) {
        Scanner sc = new Scanner(System.in);
        Deque<Long> stack = new ArrayDeque<>();
        while (sc.hasNext()) {
            String tok = sc.next();
            Op op = OPS.get(tok);
            if (op == null) stack.push(Long.parseLong(tok));
            else { long b = stack.pop(), a = stack.pop(); stack.push(op.apply(a, b)); }
        }
        System.out.println(stack.peek());
    }
}
/* cases
wrong: long b = stack.pop(), a = stack.pop(); >>> long a = stack.pop(), b = stack.pop();
case: 5 1 2 + 4 * + 3 - => 14
case: 20 4 / => 5
*/
