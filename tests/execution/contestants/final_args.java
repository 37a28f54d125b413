import java.util.Scanner;
import java.util.regex.*;
public final class Main {
    private Main() { }
    interface Visitor<R> { R visit(String key, String value); }
    public static synchronized strictfp void main(final String[] argv) {
        final Scanner sc = new Scanner(System.in);
        final Pattern p = Pattern.compile("(\\w+)=(\\d+)");
        final Visitor<String> show = (k, v) -> k.toUpperCase() + "/" + (Integer.parseInt(v) + 1);
        while (sc.hasNextLine()) {
            final Matcher m = p.matcher(sc.nextLine());
            while (m.find()) System.out.print(show.visit(m.group(1), m.group(2)) + ";");
        }
        System.out.println();
    }
}
/* cases
wrong: Integer.parseInt(v) + 1 >>> Integer.parseInt(v)
case: a=1, bc=22|x=9 => A/2;BC/23;X/10;
*/
