package podrules

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// collector collects errors, and has the rules for values that occur in many places.
type collector struct{ errs field.ErrorList }

func (c *collector) add(errs ...*field.Error) { c.errs = append(c.errs, errs...) }

func (c *collector) required(value string, path *field.Path) bool {
	if value == "" {
		c.add(field.Required(path, ""))
	}
	return value != ""
}

func (c *collector) invalid(path *field.Path, value any, messages ...string) {
	for _, message := range messages {
		c.add(field.Invalid(path, value, message))
	}
}

// unique rejects a name that was used before.
func (c *collector) unique(used map[string]bool, name string, path *field.Path) {
	if used[name] {
		c.add(field.Duplicate(path, name))
	}
	used[name] = true
}

// oneOf rejects a value that is not among those supported.
func oneOf[T ~string](c *collector, path *field.Path, value T, supported ...T) {
	if !slices.Contains(supported, value) {
		c.add(field.NotSupported(path, value, supported))
	}
}

// inRange rejects a number outside of a range, both ends included.
func (c *collector) inRange(path *field.Path, value, low, high int64) {
	if value < low || value > high {
		c.invalid(path, value, validation.InclusiveRangeError(int(low), int(high)))
	}
}

// noBacksteps follows validatePathNoBacksteps.
func (c *collector) noBacksteps(path *field.Path, value string) {
	if slices.Contains(strings.Split(value, "/"), "..") {
		c.invalid(path, value, "must not contain '..'")
	}
}

// descending follows validateLocalDescendingPath.
func (c *collector) descending(path *field.Path, value string) {
	if strings.HasPrefix(value, "/") {
		c.invalid(path, value, "must be a relative path")
	}
	c.noBacksteps(path, value)
}

// fileName follows ValidateLocalNonReservedPath.
func (c *collector) fileName(path *field.Path, value string) {
	c.descending(path, value)
	if strings.HasPrefix(value, "..") && !slices.Contains(strings.Split(value, "/"), "..") {
		c.invalid(path, value, "must not start with '..'")
	}
}

// fileMode follows fileModeErrorMsg.
func (c *collector) fileMode(path *field.Path, mode *int32) {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		c.invalid(path, *mode, "must be a number between 0 and 0777 (octal)")
	}
}

// nonNegative rejects negative quantities.
func (c *collector) nonNegative(path *field.Path, quantity resource.Quantity) {
	if quantity.Sign() < 0 {
		c.invalid(path, quantity.String(), "must be greater than or equal to 0")
	}
}

// objectName follows ValidateConfigMapName and ValidateSecretName; with prefix, the name may end
// with a dash.
func (c *collector) objectName(path *field.Path, name string, prefix bool) {
	if c.required(name, path) {
		c.invalid(path, name, apivalidation.NameIsDNSSubdomain(name, prefix)...)
	}
}

func (c *collector) pullPolicy(path *field.Path, policy corev1.PullPolicy) {
	oneOf(c, path, policy, "", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
}

// sortedKeys makes the order of the errors stable.
func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
