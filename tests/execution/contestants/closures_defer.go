package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

func safeDiv(a, b int) (res int, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("recovered: %v", r)
		}
	}()
	return a / b, nil
}

func counter() func() int {
	n := 0
	return func() int { n++; return n }
}

func main() {
	raw, _ := io.ReadAll(os.Stdin)
	next := counter()
	for _, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		var a, b int
		fmt.Sscanf(line, "%d/%d", &a, &b)
		if v, err := safeDiv(a, b); err != nil {
			fmt.Println(next(), err)
		} else {
			fmt.Println(next(), v)
		}
	}
}
/* cases
wrong: n++; return n >>> return n
case: 7/2|1/0|-9/3 => 1 3|2 recovered: runtime error: integer divide by zero|3 -3
*/
