package schema

import "math"

// Limits are what a schema says of the size of a value: of a number its value, of a text its
// length in bytes, of a list or a struct its number of items or fields. High is +Inf, and Low
// -Inf, if there is no bound.
type Limits struct {
	Types     Types
	Low, High float64
}

// LimitsAt returns the limits of the value at a path of fields; "[]" is any item of a list, or any
// field of a struct. What the schema does not describe has no limits.
func (s *Schema) LimitsAt(path []string) Limits {
	l := Limits{Low: math.Inf(1), High: math.Inf(-1)}
	s.addLimits(path, &l)
	if l.Types == 0 {
		return Limits{Types: AnyType, Low: math.Inf(-1), High: math.Inf(1)}
	}
	return l
}

// bytesPerRune is the size of the largest rune in UTF-8.
const bytesPerRune = 4

func (l *Limits) add(types Types, low, high float64) {
	l.Types |= types
	l.Low, l.High = min(l.Low, low), max(l.High, high)
}

func (s *Schema) addLimits(path []string, l *Limits) {
	switch {
	case s.Reference != nil:
		s.Reference.addLimits(path, l)
		return
	case len(s.Alternatives) > 0:
		for _, a := range s.Alternatives {
			a.addLimits(path, l)
		}
		return
	case len(path) == 0:
		s.addOwn(l)
		return
	case path[0] == "[]" && s.Types&List != 0 && s.Items != nil:
		s.Items.addLimits(path[1:], l)
		return
	}
	if s.Types&Struct == 0 {
		return
	}
	if s.Struct == nil || s.PreserveAll || s.Embedded {
		l.add(AnyType, math.Inf(-1), math.Inf(1))
		return
	}
	s.Struct.addLimits(path, l)
}

func (s *StructSchema) addLimits(path []string, l *Limits) {
	f := s.Field(path[0])
	if f != nil {
		f.Schema.addLimits(path[1:], l)
		return // the conditions only narrow it
	}
	for _, c := range s.Conditions {
		c.Then.addLimits(path, l)
	}
	if !s.allows(path[0]) {
		return
	}
	if len(s.Labels) == 0 {
		l.add(AnyType, math.Inf(-1), math.Inf(1))
	}
	for _, label := range s.Labels {
		if label.Schema != nil {
			label.Schema.addLimits(path[1:], l)
		}
	}
}

// addOwn adds the limits of the value itself.
func (s *Schema) addOwn(l *Limits) {
	if s.Enum != nil {
		for _, value := range s.Enum.Values {
			switch value := value.(type) {
			case int64:
				l.add(Int, float64(value), float64(value))
			case float64:
				l.add(Float, value, value)
			case string:
				l.add(String, 0, float64(len(value)))
			default:
				l.add(TypeOf(value), 0, 0)
			}
		}
		return
	}
	if number := s.Types & Number; number != 0 {
		low, high := math.Inf(-1), math.Inf(1)
		if s.Min != nil {
			low = asFloat(s.Min.Value)
		}
		if s.Max != nil {
			high = asFloat(s.Max.Value)
		}
		l.add(number, low, high)
	}
	sized := func(t Types, r Range, factor float64) {
		if s.Types&t == 0 {
			return
		}
		high := math.Inf(1)
		if r.Max != nil {
			high = float64(r.Max.N) * factor
		}
		l.add(t, 0, high)
	}
	sized(String, s.Length, bytesPerRune)
	sized(List, s.Size, 1)
	sized(Struct, s.Count, 1)
	if rest := s.Types & (Null | Bool); rest != 0 {
		l.add(rest, 0, 0)
	}
}

func asFloat(number any) float64 {
	if n, ok := number.(int64); ok {
		return float64(n)
	}
	f, _ := number.(float64)
	return f
}
