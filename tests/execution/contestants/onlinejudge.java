import java.io.*;
import java.util.*;

public class Main {
    static BufferedReader br;
    static String[] tokens() throws IOException { return br.readLine().trim().split("\\s+"); }

    public static void main(String[] args) throws IOException {
        boolean oj = System.getProperty("ONLINE_JUDGE") != null;
        if (!oj) {
            br = new BufferedReader(new FileReader("input.txt"));
        } else {
            br = new BufferedReader(new InputStreamReader(System.in));
        }
        int n = Integer.parseInt(tokens()[0]);
        String[] t = tokens();
        int inversions = 0;
        for (int i = 0; i < n; i++)
            for (int j = i + 1; j < n; j++)
                if (Integer.parseInt(t[i]) > Integer.parseInt(t[j])) inversions++;
        System.out.println(inversions);
    }
}
/* cases
wrong: j = i + 1 >>> j = i + 2
case: 4|3 1 4 2 => 3
case: 2|2 1 => 1
*/
