package syntax

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
)

// foreign is what authors write who know another language.
type foreign struct {
	// before and at match a line before and from the place where CUE's parser stops. Submatches of before are the
	// arguments of instead.
	before, at *regexp.Regexp
	// instead says what is wrong, and what to write.
	instead string
}

// foreignNotations are those that CUE's parser rejects. The first that matches counts.
var foreignNotations = sync.OnceValue(func() (all []foreign) {
	for _, row := range [][3]string{
		{`^\s*#\w*\s+$`, ``, "a comment begins with //"},
		{``, `^#`, "a comment begins with //"},
		{`"?\$$`, `^\{`, `CUE has no ${…}: write the expression alone, or \(…) in a string`},
		{`\bdefault\s*$`, `^=`, "CUE has no default=: write *3 | int"},
		{``, `^default\b`, "CUE has no default: write *3 | int"},
		{`\d$`, `^\.\.`, "CUE has no 1..5: write >=1 & <=5"},
		{``, `^=`, "CUE has no = between values: write ==, or : after the name of a field"},
		{`\?$`, `^\?`, "CUE has no A ?? B: write *A | B, which is B if there is no A"},
		{`^[^?]*\?\s*$`, `^(//|$)`, "the ? of an optional field follows its name, as in name?: string"},
		{`\?\s*$`, `^["\w(\[{]`, "CUE has no A ? B : C: write [if A {B}, C][0]"},
		{`[^?]$`, `^\? `, "CUE has no A ? B : C: write [if A {B}, C][0]"},
		{``, `^and\b`, "CUE has no and: write &&"},
		{``, `^or\b`, "CUE has no or: write ||"},
		{`\bnot\s+$`, ``, "CUE has no not: write !"},
		{``, `^is\b`, "CUE has no is: write =="},
		{``, `^in\b`, "CUE has no in between values: write list.Contains(LIST, VALUE)"},
		{``, `^else\b`, "CUE has no else: write another if with the opposite condition"},
		{``, `^;`, "CUE has no semicolons: a field ends with its line or a comma"},
		{`\bf$`, `^"`, `CUE has no f"{a}": write "\(a)"`},
		{`\[\]$`, `^\w`, "CUE has no []T: write [...T]"},
		{`\bmap\[\w+\]$`, `^\w`, "CUE has no map[string]T: write {[string]: T}"},
		{`\w$`, `^\.\d`, "CUE has no list.0: write list[0]"},
		{`:\s*(?:if|for)\s+$`, `^\w`, "an if or a for is no value: write braces around it, as in {if A {b: 1}}"},
		{`\b(?:for|if)\b[^{]*$`, `^:`, "the body of an if or a for needs braces, as in if A {b: 1}"},
		{`^\s*-\s+\w+$`, `^:`, `CUE has no lists with -: write brackets, as in [{name: "a"}]`},
		{`:\s*\d+$`, `^(ms|s|m|h|d)\b`, `a duration needs quotes, as in "5m"`},
		{`([\w.\-/]*[.\-/][\w.\-/]*)$`, `^[?!]?:`, "%s needs quotes: a name without has only letters, digits, _ and $"},
	} {
		all = append(all, foreign{regexp.MustCompile(row[0]), regexp.MustCompile(row[1]), row[2]})
	}
	return all
})

// ForeignNotation returns what to write instead of a line that CUE's parser rejects, given how many bytes of it the
// parser took; it is empty if the line looks like no other language.
func ForeignNotation(line string, taken int) string {
	taken = min(max(taken, 0), len(line))
	for _, f := range foreignNotations() {
		if m := f.before.FindStringSubmatch(line[:taken]); m != nil && f.at.MatchString(line[taken:]) {
			if len(m) > 1 {
				return fmt.Sprintf(f.instead, m[1])
			}
			return f.instead
		}
	}
	return ""
}

// foreignNames are names of other languages, and what CUE has instead.
var foreignNames = map[string]string{
	"str": "string", "text": "string", "integer": "int", "double": "number", "boolean": "bool", "any": "_",
	"date": "time.Time", "datetime": "time.Time", "duration": "time.Duration",
	"none": "null", "nil": "null", "undefined": "_|_",
	"size": "len(…)", "count": "len(…)", "length": "len(…)", "has": "A != _|_", "exists": "A != _|_", "not": "!A",
	"default": "*A | B, which is B if there is no A", "required": "! after the name of the field",
	"optional": "? after the name of the field", "enum": `"a" | "b"`, "oneof": `"a" | "b"`, "min": ">=1", "max": "<=5",
	"minimum": ">=1", "maximum": "<=5", "regex": `=~"…"`, "pattern": `=~"…"`, "matches": `A =~ "…"`,
	"minlength": "strings.MinRunes(1)", "maxlength": "strings.MaxRunes(5)",
	"fmt": `"\(A)"`, "sprintf": `"\(A)"`, "printf": `"\(A)"`, "tostring": `"\(A)"`, "quote": `"\(A)"`,
	"upper": "strings.ToUpper(A)", "lower": "strings.ToLower(A)", "trim": "strings.TrimSpace(A)",
	"tojson": "json.Marshal(A)", "toyaml": "yaml.Marshal(A)", "b64enc": "base64.Encode(null, A)",
	"self": "object", "this": "object", "schema": "object",
}

// predeclared are names of CUE in lower case.
var predeclared = []string{"string", "int", "float", "number", "bool", "bytes", "null", "true", "false", "len"}

// foreignName ends the message of a name that is not found in a schema or a behaviour, if another language or an object
// has it.
func foreignName(name string, inSchema bool) string {
	lower := strings.ToLower(name)
	switch {
	case inSchema && name == behaviour.ObjectName:
		return ": write {...} for any struct"
	case inSchema && (foreignNames[lower] == behaviour.ObjectName || slices.Contains(fieldsOfObjects, name)):
		return fieldAlone
	case slices.Contains(predeclared, lower):
		return ": write " + lower
	case slices.Contains(fieldsOfObjects, name):
		return ": begin with object, as in object." + name
	case foreignNames[lower] != "":
		return ": write " + foreignNames[lower]
	}
	return ""
}

var (
	wrongBound   = regexp.MustCompile(`^invalid operand .* \('(&&|\|\||[<>]=?)' requires concrete value\)$`)
	mismatched   = regexp.MustCompile(`^conflicting values (.+) and (\S+) \(mismatched types (\w+) and (\w+)\)$`)
	noMethod     = regexp.MustCompile(`^cannot call non-function (\S+)\.(\w+) \(type _\|_\)$`)
	reservedSelf = regexp.MustCompile(`^predeclared identifier "self" requires `)
	unusedAlias  = regexp.MustCompile(`^unreferenced alias or let clause \w+$`)
	optionalPart = regexp.MustCompile(`^optional marker \(\?\) requires `)
)

// fieldAlone is how a schema refers to another field.
const fieldAlone = ": write the name of the field alone"

// foreignValue ends the message of the expression of a field that CUE reads otherwise than the language that it looks
// like.
func foreignValue(message, field string, inSchema bool) string {
	switch {
	case reservedSelf.MatchString(message) && inSchema:
		return fieldAlone
	case reservedSelf.MatchString(message):
		return ": write object"
	case strings.HasPrefix(message, "cannot call non-function string"):
		return `: write "\(A)"`
	case strings.HasPrefix(message, "cannot have both alias and field"):
		return ": give the let another name"
	case unusedAlias.MatchString(message):
		return ": write : after the name of a field, and a default as in *3 | int"
	case optionalPart.MatchString(message):
		return ": write *A.b | C, which is C if there is no A.b"
	case noMethod.MatchString(message):
		return ": CUE has no methods: write a function of a package, as in strings.ToUpper(A)"
	}
	if m := wrongBound.FindStringSubmatch(message); m != nil {
		return ": write " + cmp.Or(map[string]string{"||": "|"}[m[1]], "&") + " between types and bounds"
	}
	m := mismatched.FindStringSubmatch(message)
	switch {
	case m == nil:
	case field == "children" && m[3] == "list":
		return ": write {NAME: {…}}"
	case field == "after" && m[3] == "int":
		return fmt.Sprintf(": write a duration, as in %q", m[1]+"s")
	default:
		return unquoted(m[1], m[3], m[4])
	}
	return ""
}

// unquoted says how a literal of one type is written as one of another, if that is likely to be meant.
func unquoted(literal, from, to string) string {
	quoted := strings.Trim(literal, `"'`)
	lower := strings.ToLower(quoted)
	switch {
	case from == "bytes" && to == "string":
		return fmt.Sprintf(": write %q: single quotes are for bytes", quoted)
	case from == "string" && to == "bool" && (lower == "true" || lower == "false"):
		return ": write " + lower
	case from == "string" && to == "bool":
		return ": write the condition without quotes"
	case from == "string" && isNumber(quoted) && (to == "int" || to == "number" || to == "float"):
		return ": write " + quoted
	case (from == "int" || from == "float" || from == "bool") && to == "string":
		return fmt.Sprintf(": write %q", literal)
	}
	return ""
}

func isNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}
