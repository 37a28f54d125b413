#include <bitset>
#include <iostream>
using namespace std;

int main() {
    int n, total = 0, x;
    cin >> n;
    bitset<100001> can;
    can[0] = 1;
    for (int i = 0; i < n; i++) { cin >> x; can |= can << x; total += x; }
    for (int i = total / 2; i >= 0; i--)
        if (can[i]) { cout << total - 2 * i << endl; break; }
    cout << can.count() << endl;
}
/* cases
wrong: can |= can << x >>> can = can << x
case: 4|3 1 4 2 => 0|11
case: 2|5 9 => 4|4
*/
