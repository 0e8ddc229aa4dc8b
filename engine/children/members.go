package children

import (
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
)

// Named returns the member of a set that has a name. It shares everything else with the object
// that is given.
func Named(object *unstructured.Unstructured, name string) *unstructured.Unstructured {
	result := WithOwnMetadata(object)
	result.SetName(name)
	if o, ok := OriginOf(object); ok {
		o.Record(result) // with annotations of its own
	}
	return result
}

// MemberName names a member of a set, like web-3f9a1-7, by the first digits of its template's hash.
// Every reconcile uses the same numbers, so that one with a stale cache meets the member that exists
// and creates no other.
func MemberName(member *unstructured.Unstructured, number int) string {
	return member.GetName() + "-" + TemplateHash(member)[:hashDigits] + "-" + strconv.Itoa(number)
}

// OrderedName names a member of an ordered set, like web-3.
func OrderedName(prefix string, index int) string { return prefix + "-" + strconv.Itoa(index) }

var orderedSuffix = regexp.MustCompile(`^-(0|[1-9][0-9]{0,8})$`)

var memberSuffix = regexp.MustCompile(`^-[0-9a-f]{5}-(0|[1-9][0-9]{0,8})$`)

// MemberNumber returns the number in the name of a member of any template.
func MemberNumber(set *kind.Set, prefix, name string) (number int, ok bool) {
	suffix, found := strings.CutPrefix(name, prefix)
	pattern := memberSuffix
	if set.Ordered {
		pattern = orderedSuffix
	}
	groups := pattern.FindStringSubmatch(suffix)
	if !found || groups == nil {
		return 0, false
	}
	number, err := strconv.Atoi(groups[1])
	return number, err == nil
}

// LastNumber returns the number at the end of a member's name; 0 if there is none.
func LastNumber(name string) int {
	number, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil {
		return 0
	}
	return number
}
