import java.util.*;
import java.util.stream.*;
import java.io.*;

public class Main {
    public static void main(String[] args) throws IOException {
        try (BufferedReader reader = new BufferedReader(new InputStreamReader(System.in))) {
            int n = Integer.parseInt(reader.readLine());
            List<String> words = reader.lines().limit(n).map(String::trim).collect(Collectors.toList());
            Map<Integer, List<String>> byLength = words.stream().collect(Collectors.groupingBy(String::length, TreeMap::new, Collectors.toList()));
            byLength.forEach((len, ws) -> System.out.println(len + " " + ws.stream().sorted(Comparator.reverseOrder()).collect(Collectors.joining(","))));
            System.out.println(IntStream.range(0, n).mapToObj(words::get).mapToInt(String::length).sum());
        }
    }
}
/* cases
wrong: Comparator.reverseOrder() >>> Comparator.naturalOrder()
case: 4|pear|fig|plum|kiwi => 3 fig|4 plum,pear,kiwi|15
*/
