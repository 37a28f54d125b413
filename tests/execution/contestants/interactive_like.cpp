#include <iostream>
#include <string>
using namespace std;
int main() {
    int lo = 1, hi = 1000000;
    string reply;
    cin >> hi;
    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;
        cout << mid << endl << flush;
        cin >> reply;
        if (reply == "<") hi = mid - 1;
        else lo = mid;
    }
    printf("! %d\n", lo);
    fflush(stdout);
}
/* cases
wrong: hi = mid - 1 >>> hi = mid - 2
case: 8|<|>=|< => 5|3|4|! 3
case: 1 => ! 1
*/
