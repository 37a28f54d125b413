package main

import (
	"fmt"
	"math/big"
)

func main() {
	var n int
	fmt.Scan(&n)
	a, b := big.NewInt(0), big.NewInt(1)
	for i := 0; i < n; i++ {
		a.Add(a, b)
		a, b = b, a
	}
	fmt.Println(a)
	fmt.Println(len(a.String()))
}
/* cases
wrong: i < n >>> i <= n
case: 100 => 354224848179261915075|21
*/
