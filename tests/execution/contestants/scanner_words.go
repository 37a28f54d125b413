package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

var sc = bufio.NewScanner(os.Stdin)

func nextInt() int {
	sc.Scan()
	v, err := strconv.Atoi(sc.Text())
	if err != nil {
		panic(err)
	}
	return v
}

func main() {
	sc.Buffer(make([]byte, 1<<20), 1<<20)
	sc.Split(bufio.ScanWords)
	n := nextInt()
	var sb strings.Builder
	last := -1 << 60
	for i := 0; i < n; i++ {
		if x := nextInt(); x > last {
			sb.WriteString(strconv.Itoa(x) + " ")
			last = x
		}
	}
	fmt.Println(strings.TrimSpace(sb.String()))
}
/* cases
wrong: x > last >>> x >= last
case: 6|3 3 5 2 5 8 => 3 5 8
*/
