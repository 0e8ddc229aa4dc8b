package projection

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fescue-dev/fescue/internal/jsontext"
	"github.com/fescue-dev/fescue/internal/parts"
)

// append appends the text of what is kept of an object. metadata.managedFields is left out: it is up
// to a third of an object, and nobody reads it from a cache.
func (p Projection) append(to []byte, object jsontext.Value) []byte {
	to = append(to, '{')
	first := true
	if p.implied.Kind != "" && !object.Member("kind").IsSet() {
		to = append(jsontext.AppendQuoted(append(to, `"apiVersion":`...), p.implied.APIVersion), `,"kind":`...)
		to, first = jsontext.AppendQuoted(to, p.implied.Kind), false
	}
	for name, member := range object.Members {
		kept := p.keep.At(string(name.Content()))
		if kept == nil {
			continue
		}
		to, first = appendName(to, name, first), false
		if name.Equals("metadata") && member.Is('{') {
			to = appendObject(to, member, kept, "managedFields")
		} else {
			to = appendValue(to, member, kept)
		}
	}
	return append(to, '}')
}

func appendName(to []byte, name jsontext.Value, first bool) []byte {
	if !first {
		to = append(to, ',')
	}
	return append(append(to, name.Raw()...), ':')
}

func appendValue(to []byte, v jsontext.Value, f *parts.Set) []byte {
	switch {
	case f.Whole:
		return append(to, v.Raw()...)
	case v.Is('{'):
		return appendObject(to, v, f, "")
	case v.Is('['):
		to = append(to, '[')
		for i, item := range v.Items {
			if i > 0 {
				to = append(to, ',')
			}
			to = appendValue(to, item, f.AtElement())
		}
		return append(to, ']')
	}
	return append(to, v.Raw()...)
}

// appendObject leaves out the field of a name.
func appendObject(to []byte, v jsontext.Value, f *parts.Set, except string) []byte {
	to = append(to, '{')
	first := true
	for name, member := range v.Members {
		kept := f.At(string(name.Content()))
		if kept == nil || except != "" && name.Equals(except) {
			continue
		}
		to, first = appendName(to, name, first), false
		to = appendValue(to, member, kept)
	}
	return append(to, '}')
}

// Decode returns the value of a text as unstructured objects have it: objects are maps, lists are
// slices, integers are int64, other numbers float64. Strings of the value share the memory of text.
func Decode(text string) (any, error) {
	parsed, err := jsontext.Parse([]byte(text))
	defer parsed.Release()
	if err != nil {
		return nil, err
	}
	return decode(text, parsed)
}

func decode(text string, v jsontext.Value) (any, error) {
	switch text[v.Start()] {
	case '{':
		n := 0
		for range v.Members {
			n++
		}
		object := make(map[string]any, n)
		for name, member := range v.Members {
			value, err := decode(text, member)
			if err != nil {
				return nil, err
			}
			object[content(text, name)] = value
		}
		return object, nil
	case '[':
		list := make([]any, 0, v.Len())
		for _, item := range v.Items {
			value, err := decode(text, item)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	case '"':
		return content(text, v), nil
	case 't':
		return true, nil
	case 'f':
		return false, nil
	case 'n':
		return nil, nil
	}
	return number(text[v.Start():v.End()])
}

// content returns the content of a string, within the text if it is there as it is.
func content(text string, v jsontext.Value) string {
	raw := text[v.Start()+1 : v.End()-1]
	if strings.IndexByte(raw, '\\') >= 0 {
		return v.String()
	}
	return raw
}

// number follows the decoder of unstructured objects in k8s.io/apimachinery.
func number(text string) (any, error) {
	if strings.IndexByte(text, '.') < 0 {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return i, nil
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("number %s: %w", text, err)
	}
	return f, nil
}
