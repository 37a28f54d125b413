import java.util.*;
import java.io.*;

class Kattio extends PrintWriter {
    public Kattio(InputStream i) { super(new BufferedOutputStream(System.out)); r = new BufferedReader(new InputStreamReader(i)); }
    public boolean hasMoreTokens() { return peekToken() != null; }
    public int getInt() { return Integer.parseInt(nextToken()); }
    public String getWord() { return nextToken(); }
    private BufferedReader r;
    private String line, token;
    private StringTokenizer st;
    private String peekToken() {
        if (token == null)
            try {
                while (st == null || !st.hasMoreTokens()) {
                    line = r.readLine();
                    if (line == null) return null;
                    st = new StringTokenizer(line);
                }
                token = st.nextToken();
            } catch (IOException e) { }
        return token;
    }
    private String nextToken() { String ans = peekToken(); token = null; return ans; }
}

public class wordcloud {
    public static void main(String[] args) throws Exception {
        Kattio io = new Kattio(System.in);
        TreeMap<String, Integer> m = new TreeMap<>(Comparator.comparing(String::length).thenComparing(Comparator.naturalOrder()));
        while (io.hasMoreTokens()) m.compute(io.getWord().toLowerCase(), (k, v) -> v == null ? 1 : v + 1);
        m.forEach((k, v) -> io.println(k + " " + v));
        io.close();
    }
}
/* cases
wrong: v == null ? 1 : v + 1 >>> 1
case: To be or not to be|that is => be 2|is 1|or 1|to 2|not 1|that 1
*/
