#include <atomic>
#include <future>
#include <iostream>
#include <mutex>
#include <thread>
#include <vector>
int main() {
    long n; std::cin >> n;
    std::atomic<long> primes{0};
    std::vector<std::thread> ts;
    for (int k = 0; k < 2; k++)
        ts.emplace_back([&, k] {
            for (long i = 2 + k; i <= n; i += 2) {
                bool p = true;
                for (long j = 2; j * j <= i; j++) if (i % j == 0) { p = false; break; }
                if (p) primes++;
            }
        });
    for (auto &t : ts) t.join();
    auto f = std::async(std::launch::async, [&] { return primes.load() * 2; });
    std::cout << primes << " " << f.get() << "\n";
}
/* cases
wrong: j * j <= i >>> j * j < i
case: 100 => 25 50
*/
