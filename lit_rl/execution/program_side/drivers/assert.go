// Package assert has the asserts of testify that tests of Go programs use most, with the same meaning.
package assert

import (
	"bytes"
	"math"
	"reflect"
	"testing"
)

type Assertions struct{ t *testing.T }

func New(t *testing.T) *Assertions { return &Assertions{t} }

func (a *Assertions) hold(holds bool, words ...any) bool {
	a.t.Helper()
	if !holds {
		a.t.Errorf("assertion failed: %v", words)
	}
	return holds
}

func same(a, b any) bool {
	one, is := a.([]byte)
	if other, are := b.([]byte); is && are && one != nil && other != nil {
		return bytes.Equal(one, other)
	}
	return reflect.DeepEqual(a, b)
}

func (a *Assertions) Equal(wanted, got any, _ ...any) bool    { return a.hold(same(wanted, got), wanted, got) }
func (a *Assertions) NotEqual(wanted, got any, _ ...any) bool { return a.hold(!same(wanted, got), got) }
func (a *Assertions) True(value bool, _ ...any) bool          { return a.hold(value, value) }
func (a *Assertions) False(value bool, _ ...any) bool         { return a.hold(!value, value) }
func (a *Assertions) InDelta(wanted, got, delta float64, _ ...any) bool {
	return a.hold(math.Abs(wanted-got) <= delta, wanted, got)
}
func Equal(t *testing.T, wanted, got any, _ ...any) bool { return New(t).Equal(wanted, got) }
func True(t *testing.T, value bool, _ ...any) bool       { return New(t).True(value) }
func False(t *testing.T, value bool, _ ...any) bool      { return New(t).False(value) }
