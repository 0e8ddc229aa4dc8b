package podrules

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// resources follows validateResourceRequirements for containers, after SetDefaults_Pod.
func (c *container) resources() {
	r, path := &c.Resources, c.path.Child("resources")
	hugePages, others := false, false
	seen := func(name corev1.ResourceName) {
		hugePages = hugePages || isHugePages(name)
		others = others || name == corev1.ResourceCPU || name == corev1.ResourceMemory
	}
	for _, name := range sortedKeys(r.Limits) {
		seen(name)
		c.resource(name, r.Limits[name], path.Child("limits").Key(string(name)))
	}
	for _, name := range sortedKeys(r.Requests) {
		seen(name)
		path, request := path.Child("requests").Key(string(name)), r.Requests[name]
		c.resource(name, request, path)
		limit, limited := r.Limits[name]
		switch {
		case !limited && c.isPartial():
		case !limited && !overcommits(name):
			c.invalid(path, request.String(), "a limit must be set for a resource that cannot be overcommitted")
		case !limited:
		case !overcommits(name) && request.Cmp(limit) != 0:
			c.invalid(path, request.String(), fmt.Sprintf("must be equal to the limit, %s", limit.String()))
		case request.Cmp(limit) > 0:
			c.invalid(path, request.String(),
				fmt.Sprintf("must be less than or equal to the limit, %s", limit.String()))
		}
	}
	if hugePages && !others && !c.isPartial() {
		c.add(field.Forbidden(path, "HugePages require cpu or memory"))
	}
	c.resourceClaims(r.Claims, path.Child("claims"))
}

// resource follows validateContainerResourceName, ValidateResourceQuantityValue and
// validateResourceQuantityHugePageValue.
func (c *container) resource(name corev1.ResourceName, quantity resource.Quantity, path *field.Path) {
	c.nonNegative(path, quantity)
	domain, _, qualified := strings.Cut(string(name), "/")
	if messages := validation.IsQualifiedName(string(name)); len(messages) > 0 {
		c.invalid(path, name, messages...)
		return
	}
	switch {
	case isHugePages(name):
		size, err := resource.ParseQuantity(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
		if err != nil || size.Sign() <= 0 || size.MilliValue()%1000 != 0 || quantity.Value()%size.Value() != 0 {
			c.invalid(path, quantity.String(), fmt.Sprintf("is not a positive integer multiple of %s", name))
		}
	case !qualified:
		if !slices.Contains(containerResources, name) {
			c.invalid(path, name, "must be a standard resource for containers")
		}
	case strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix): // IsNativeResource
	case strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix),
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) > 0:
		c.invalid(path, name, fmt.Sprintf("the domain %s cannot be that of an extended resource", domain))
	case quantity.MilliValue()%1000 != 0:
		c.invalid(path, quantity.String(), "must be an integer")
	}
}

var containerResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory,
	corev1.ResourceEphemeralStorage}

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// overcommits follows IsOvercommitAllowed.
func overcommits(name corev1.ResourceName) bool {
	native := !strings.Contains(string(name), "/") ||
		strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
	return native && !isHugePages(name)
}

// resourceClaims follows validateResourceClaimNames.
func (c *container) resourceClaims(claims []corev1.ResourceClaim, path *field.Path) {
	used := make(map[string]bool)
	for i, claim := range claims {
		path := path.Index(i)
		if !c.required(claim.Name, path.Child("name")) {
			continue
		}
		c.unique(used, claim.Name, path.Child("name")) // it is the key of the list
		if claim.Request != "" {
			c.invalid(path.Child("request"), claim.Request, validation.IsDNS1123Label(claim.Request)...)
		}
		if c.pod.whole &&
			!slices.ContainsFunc(c.pod.Spec.ResourceClaims,
				func(c corev1.PodResourceClaim) bool { return c.Name == claim.Name }) {
			c.add(field.NotFound(path.Child("name"), claim.Name))
		}
	}
}
