import java.time.*;
import java.time.format.*;
import java.time.temporal.ChronoUnit;
import java.util.*;

public class Main {
    public static void main(String[] args) {
        Scanner sc = new Scanner(System.in);
        DateTimeFormatter f = DateTimeFormatter.ofPattern("yyyy-MM-dd");
        LocalDate a = LocalDate.parse(sc.next(), f), b = LocalDate.parse(sc.next(), f);
        System.out.println(ChronoUnit.DAYS.between(a, b));
        System.out.println(b.getDayOfWeek().toString().charAt(0) + "" + b.plusDays(1).getDayOfMonth());
    }
}
/* cases
wrong: DAYS.between(a, b) >>> DAYS.between(b, a)
case: 2024-02-27 2024-03-01 => 3|F2
*/
