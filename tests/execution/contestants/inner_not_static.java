import java.util.*;

public class Main {
    class Account {
        private long balance;
        void deposit(long x) { balance += x; }
        boolean withdraw(long x) { if (x > balance) return false; balance -= x; return true; }
    }

    Map<String, Account> accounts = new HashMap<>();

    void run() {
        Scanner sc = new Scanner(System.in);
        int q = sc.nextInt();
        while (q-- > 0) {
            String op = sc.next(), name = sc.next();
            long x = sc.nextLong();
            Account a = accounts.computeIfAbsent(name, k -> new Account());
            if (op.equals("D")) a.deposit(x);
            else System.out.println(a.withdraw(x) ? "OK " + a.balance : "NO");
        }
    }

    public static void main(String[] args) { new Main().run(); }
}
/* cases
wrong: x > balance >>> x >= balance
case: 4|D ann 10|W bob 1|W ann 7|W ann 3 => NO|OK 3|OK 0
*/
