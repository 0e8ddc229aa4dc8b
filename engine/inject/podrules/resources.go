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
func (v *validator) resources(r *corev1.ResourceRequirements, path *field.Path, scope *containerScope) {
	hugePages, others := false, false
	seen := func(name corev1.ResourceName) {
		hugePages = hugePages || isHugePages(name)
		others = others || name == corev1.ResourceCPU || name == corev1.ResourceMemory
	}
	for _, name := range sortedKeys(r.Limits) {
		seen(name)
		v.resource(name, r.Limits[name], path.Child("limits").Key(string(name)))
	}
	for _, name := range sortedKeys(r.Requests) {
		seen(name)
		path, request := path.Child("requests").Key(string(name)), r.Requests[name]
		v.resource(name, request, path)
		limit, limited := r.Limits[name]
		switch {
		case !limited && scope.partial:
		case !limited && !overcommits(name):
			v.invalid(path, request.String(), "a limit must be set for a resource that cannot be overcommitted")
		case !limited:
		case !overcommits(name) && request.Cmp(limit) != 0:
			v.invalid(path, request.String(), fmt.Sprintf("must be equal to the limit, %s", limit.String()))
		case request.Cmp(limit) > 0:
			v.invalid(path, request.String(), fmt.Sprintf("must be less than or equal to the limit, %s", limit.String()))
		}
	}
	if hugePages && !others && !scope.partial {
		v.add(field.Forbidden(path, "HugePages require cpu or memory"))
	}
	v.resourceClaims(r.Claims, path.Child("claims"))
}

// resource follows validateContainerResourceName, ValidateResourceQuantityValue and
// validateResourceQuantityHugePageValue.
func (v *validator) resource(name corev1.ResourceName, quantity resource.Quantity, path *field.Path) {
	v.nonNegative(path, quantity)
	domain, _, qualified := strings.Cut(string(name), "/")
	if messages := validation.IsQualifiedName(string(name)); len(messages) > 0 {
		v.invalid(path, name, messages...)
		return
	}
	switch {
	case isHugePages(name):
		size, err := resource.ParseQuantity(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
		if err != nil || size.Sign() <= 0 || size.MilliValue()%1000 != 0 || quantity.Value()%size.Value() != 0 {
			v.invalid(path, quantity.String(), fmt.Sprintf("is not a positive integer multiple of %s", name))
		}
	case !qualified:
		if !slices.Contains(containerResources, name) {
			v.invalid(path, name, "must be a standard resource for containers")
		}
	case strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix): // IsNativeResource
	case strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix), len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) > 0:
		v.invalid(path, name, fmt.Sprintf("the domain %s cannot be that of an extended resource", domain))
	case quantity.MilliValue()%1000 != 0:
		v.invalid(path, quantity.String(), "must be an integer")
	}
}

var containerResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// overcommits follows IsOvercommitAllowed.
func overcommits(name corev1.ResourceName) bool {
	native := !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
	return native && !isHugePages(name)
}

// resourceClaims follows validateResourceClaimNames.
func (v *validator) resourceClaims(claims []corev1.ResourceClaim, path *field.Path) {
	used := make(map[string]bool)
	for i, claim := range claims {
		path := path.Index(i)
		if !v.required(claim.Name, path.Child("name")) {
			continue
		}
		v.unique(used, claim.Name, path.Child("name")) // it is the key of the list
		if claim.Request != "" {
			v.invalid(path.Child("request"), claim.Request, validation.IsDNS1123Label(claim.Request)...)
		}
		if v.whole && !slices.ContainsFunc(v.spec.ResourceClaims, func(c corev1.PodResourceClaim) bool { return c.Name == claim.Name }) {
			v.add(field.NotFound(path.Child("name"), claim.Name))
		}
	}
}
