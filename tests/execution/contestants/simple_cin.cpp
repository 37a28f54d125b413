#include <iostream>
int main() { double r; std::cin >> r; std::cout.precision(10); std::cout << 3.14159265358979 * r * r << std::endl; return EXIT_SUCCESS; }
/* cases
wrong: r * r >>> 2 * r
case: 2.5 => 19.63495408
*/
