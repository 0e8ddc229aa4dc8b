package simulate

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// disturbances are what someone has the cluster do otherwise than a healthy one.
type disturbances struct {
	held       []Selection
	rejections []rejection
}

// rejection is what the API server answers to some requests.
type rejection struct {
	verbs   []string
	objects Selection
	message string
}

// Hold has the cluster leave the status of selected objects as it is from now on. It does not change
// what is there.
func (d *disturbances) Hold(s Selection) { d.held = append(d.held, s) }

// Release ends Hold for the same selection.
func (d *disturbances) Release(s Selection) {
	d.held = slices.DeleteFunc(d.held, func(held Selection) bool { return held == s })
}

// Reject has the API server reject writes of the controllers to selected objects. The verbs are
// those of rights: create, patch and delete.
func (d *disturbances) Reject(verbs []string, s Selection, message string) {
	d.rejections = append(d.rejections, rejection{verbs, s, message})
}

// Allow ends what Reject began for the same objects.
func (d *disturbances) Allow(verbs []string, s Selection) {
	d.rejections = slices.DeleteFunc(d.rejections, func(r rejection) bool {
		return r.objects == s &&
			!slices.ContainsFunc(r.verbs, func(verb string) bool { return !slices.Contains(verbs, verb) })
	})
}

// holds reports whether the status of an object is left as it is.
func (d *disturbances) holds(types served, object *unstructured.Unstructured) bool {
	return slices.ContainsFunc(d.held, func(s Selection) bool { return s.matches(types, object) })
}

// rejects returns why a request of a controller is rejected; nil if it is not.
func (d *disturbances) rejects(types served, verb string, object *unstructured.Unstructured) error {
	for _, r := range d.rejections {
		if slices.Contains(r.verbs, verb) && r.objects.matches(types, object) {
			return forbidden(r.message)
		}
	}
	return nil
}
