package main

import (
	"bufio"
	"fmt"
	"os"
	"sort"
)

func main() {
	reader := bufio.NewReader(os.Stdin)
	writer := bufio.NewWriter(os.Stdout)
	defer writer.Flush()

	var t int
	fmt.Fscan(reader, &t)
	for ; t > 0; t-- {
		var n int
		fmt.Fscan(reader, &n)
		a := make([]int, n)
		for i := range a {
			fmt.Fscan(reader, &a[i])
		}
		sort.Sort(sort.Reverse(sort.IntSlice(a)))
		alice, bob := 0, 0
		for i, x := range a {
			if i%2 == 0 {
				alice += x
			} else {
				bob += x
			}
		}
		fmt.Fprintln(writer, alice, bob)
	}
}
/* cases
wrong: i%2 == 0 >>> i%3 == 0
case: 2|4|1 5 2 9|1|7 => 11 6|7 0
*/
