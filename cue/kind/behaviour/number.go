package behaviour

import (
	"math"
	"strconv"
	"strings"

	"github.com/cockroachdb/apd/v3"
)

// Decimal is a number that no int64 holds: a large integer, or one with a fraction.
type Decimal struct {
	apd.Decimal
	// IsFloat means that its kind is float, as that of 1.0 is.
	IsFloat bool
}

// arithmetic has CUE's precision.
var arithmetic = apd.BaseContext.WithPrecision(34)

// reduced returns the number as an int64 if it is a small integer.
func (d *Decimal) reduced() any {
	if d.IsFloat {
		return d
	}
	if n, err := d.Int64(); err == nil {
		return n
	}
	return d
}

// trim removes the zeros at the end of a quotient, but for one after the point, as CUE does.
func (d *Decimal) trim() {
	hasPoint := d.Exponent < 0
	d.Reduce(&d.Decimal)
	if hasPoint && d.Exponent >= 0 {
		d.Exponent--
		d.Coeff.Mul(&d.Coeff, apd.NewBigInt(10))
	}
}

func parseDecimal(text string) *Decimal {
	d := &Decimal{}
	if _, _, err := d.SetString(text); err != nil {
		return nil
	}
	return d
}

// scalarOf returns a value of an unstructured object as one that expressions work with. JSON's
// numbers with a fraction or an exponent are floats.
func scalarOf(value any) any {
	switch v := value.(type) {
	case int:
		return int64(v)
	case int32:
		return int64(v)
	case float64:
		d := &Decimal{IsFloat: true}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		if _, _, err := d.SetString(text); err != nil {
			return nil
		}
		return d
	}
	return value
}

// toDecimal returns a number as a decimal.
func toDecimal(value any) (*Decimal, bool) {
	switch v := value.(type) {
	case int64:
		d := &Decimal{}
		d.SetInt64(v)
		return d, true
	case *Decimal:
		return v, true
	}
	return nil, false
}

// plain returns a number as unstructured objects hold it once the API server has stored them: JSON writes the float 2.0
// as 2, which is an integer when it is read, and integers of more than 64 bits are floats. Otherwise a template or a
// status with such a number would always differ from what is stored.
func plain(value any) (any, string) {
	d, ok := value.(*Decimal)
	if !ok {
		return value, ""
	}
	f, err := d.Float64()
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, "is a number that 64 bits cannot hold"
	}
	if n := int64(f); f >= math.MinInt64 && f < math.MaxInt64 && float64(n) == f {
		return n, ""
	}
	return f, ""
}

func negated(value any) any {
	if n, ok := value.(int64); ok && n != math.MinInt64 {
		return -n
	}
	d, _ := toDecimal(value)
	result := &Decimal{IsFloat: d.IsFloat}
	result.Neg(&d.Decimal)
	return result.reduced()
}

func compareNumbers(a, b any) int {
	x, ok1 := a.(int64)
	y, ok2 := b.(int64)
	if ok1 && ok2 {
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	}
	dx, _ := toDecimal(a)
	dy, _ := toDecimal(b)
	return dx.Cmp(&dy.Decimal)
}

// numberText is a number in an interpolation.
func numberText(value any) string {
	if n, ok := value.(int64); ok {
		return strconv.FormatInt(n, 10)
	}
	d, _ := toDecimal(value)
	return d.String()
}
