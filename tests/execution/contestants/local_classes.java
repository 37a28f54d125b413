import java.util.*;
import java.util.concurrent.*;

public class Main {
    public static void main(String[] args) throws Exception {
        class Job implements Callable<Long> {
            final int lo, hi;
            Job(int lo, int hi) { this.lo = lo; this.hi = hi; }
            public Long call() { long s = 0; for (int i = lo; i < hi; i++) s += (long) i * i; return s; }
        }
        int n = new Scanner(System.in).nextInt();
        ExecutorService pool = Executors.newFixedThreadPool(2);
        List<Future<Long>> parts = new ArrayList<>();
        for (int i = 0; i < 4; i++) parts.add(pool.submit(new Job(n * i / 4, n * (i + 1) / 4)));
        long total = 0;
        for (Future<Long> f : parts) total += f.get();
        pool.shutdown();
        System.out.println(total);
    }
}
/* cases
wrong: i < hi >>> i <= hi
case: 10 => 285
case: 1000 => 332833500
*/
