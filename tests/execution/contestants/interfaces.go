package main

import (
	"errors"
	"fmt"
	"math"
	"os"
)

type Shape interface {
	Area() float64
	fmt.Stringer
}
type Circle struct{ R float64 }
type Rect struct{ W, H float64 }

func (c Circle) Area() float64   { return math.Pi * c.R * c.R }
func (c Circle) String() string  { return fmt.Sprintf("circle(%g)", c.R) }
func (r *Rect) Area() float64    { return r.W * r.H }
func (r *Rect) String() string   { return fmt.Sprintf("rect(%gx%g)", r.W, r.H) }

var errKind = errors.New("unknown kind")

func read() (Shape, error) {
	var kind string
	if _, err := fmt.Scan(&kind); err != nil {
		return nil, err
	}
	switch kind {
	case "c":
		var c Circle
		fmt.Scan(&c.R)
		return c, nil
	case "r":
		r := new(Rect)
		fmt.Scan(&r.W, &r.H)
		return r, nil
	}
	return nil, fmt.Errorf("%w: %q", errKind, kind)
}

func main() {
	for {
		s, err := read()
		if errors.Is(err, errKind) {
			fmt.Println(err)
			os.Exit(0)
		} else if err != nil {
			return
		}
		fmt.Printf("%v %.2f\n", s, s.Area())
	}
}
/* cases
wrong: r.W * r.H >>> r.W + r.H
case: c 1.5|r 2 3.5|z => circle(1.5) 7.07|rect(2x3.5) 7.00|unknown kind: "z"
*/
