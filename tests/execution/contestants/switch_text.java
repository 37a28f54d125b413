import java.util.*;

public class Main {
    sealed interface Shape permits Circle, Rect {}
    record Circle(double r) implements Shape {}
    record Rect(double w, double h) implements Shape {}

    static double area(Shape s) {
        if (s instanceof Circle c) return Math.PI * c.r() * c.r();
        if (s instanceof Rect r) return r.w() * r.h();
        throw new IllegalArgumentException();
    }

    public static void main(String[] args) {
        var sc = new Scanner(System.in);
        int n = Integer.parseInt(sc.nextLine());
        double total = 0;
        for (int i = 0; i < n; i++) {
            String[] parts = sc.nextLine().split("\\s+");
            Shape s = switch (parts[0]) {
                case "circle" -> new Circle(Double.parseDouble(parts[1]));
                case "rect" -> new Rect(Double.parseDouble(parts[1]), Double.parseDouble(parts[2]));
                default -> throw new IllegalStateException(parts[0]);
            };
            total += area(s);
        }
        System.out.println(String.format(Locale.ROOT, "%.3f", total));
        System.out.print("""
            done {
            }
            """);
    }
}
/* cases
wrong: r.w() * r.h() >>> r.w() + r.h()
case: 2|circle 1.5|rect 2 4 => 15.069|done {|}
*/
